"""The primary's stream, as the caller reads it, with its first items kept for the comparison."""

from __future__ import annotations

from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.routing import SO_FAR, Ending, RoutedCall
from lucky_transport.transport import Stream
from lucky_transport_migration.evidence.outcome import ending_of

__all__ = ["StagedStream"]


class StagedStream(Stream):
    """Everything the caller sees is `stream`'s own: items, errors, drops."""

    def __init__(self, stream: Stream, call: RoutedCall) -> None:
        self._stream = stream
        self._call = call

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that the engine skipped so far because this side was slow."""
        return self._stream.dropped

    def __next__(self) -> Any:
        try:
            item = next(self._stream)
        except StopIteration:
            self._call.received.dropped = self._stream.dropped  # gRPC tells it with the end
            self._call.ends(Ending())
            raise
        except TransportError as error:
            self._call.ends(ending_of(error))
            raise
        if not self._call.is_over:
            self._call.received.dropped = self._stream.dropped
            self._call.receives(item)
        return item

    def cancel(self) -> None:
        if "_stream" in self.__dict__:  # else the constructor never ran
            self._call.ends(SO_FAR)
            self._call.left()
            self._stream.cancel()
