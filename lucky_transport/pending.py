"""A unary call under way: begun by `Transport.begin`, awaited later, so that several go on beside each other.

    pending = [transport.begin(method, request, deadline) for request in requests]
    answers = [one.result() for one in pending]

Rule 1: who began a call awaits or cancels it; one that is dropped goes on until its answer or its deadline comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["Pending", "Settled"]


class Pending(ABC):
    """A call under way, for one thread."""

    @abstractmethod
    def result(self) -> Any:
        """Return the response message, waiting for it until the call's deadline; once. Raises what the call raises."""

    @abstractmethod
    def cancel(self) -> None:
        """Wait no longer, and tell the engine as far as that is possible; no effect on a call that has ended."""


class Settled(Pending):
    """A call that has ended: with `error`, or with `response` where there is none."""

    def __init__(self, response: Any = None, error: Exception | None = None) -> None:
        self._response = response
        self._error = error

    @classmethod
    def by(cls, call: Callable[[], Any]) -> Settled:
        """Make the call, and return what came of it; what it raises is raised by `result`."""
        try:
            return cls(call())
        except Exception as error:
            return cls(error=error)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._response

    def cancel(self) -> None:
        pass
