"""What can be used in a `with` block, which closes it."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Something with a `close`, which a `with` block calls at its end."""

    __slots__ = ()

    def close(self) -> None:
        """End it; idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
