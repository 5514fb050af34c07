"""The contract of calls for asyncio.

A transport that can serve an event loop without a thread per call returns its own `AsyncCalls` from
`Transport.async_calls`; for the others the client keeps a few threads (`lucky_transport.client.threads`). Objects of
one event loop are used in that loop only, except `AsyncStream.cancel`, which may be called from any thread. Cancelling
the task that waits cancels the call or stream here at once, and on the engine's side as far as the transport can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from lucky_transport.deadline import Deadline

if TYPE_CHECKING:
    from lucky_transport.messages.methods import Method


Item = TypeVar("Item", covariant=True)


class AsyncStream(ABC):
    """A server stream being received: `async for` over it. Dropping it, `break` and `cancel` end it on both sides.

    dropped: items that the engine skipped so far because this side was slow.
    """

    dropped: int = 0

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> Any:
        """Return the next item; StopAsyncIteration after the last. One task at a time.

        Raises Cancelled after `cancel`, Unimplemented, EngineFailed, PeerTimeout (the stream's deadline), PeerDied.
        After the end no item comes any more: what was raised is raised again.
        """

    @abstractmethod
    def cancel(self) -> None:
        """End the stream, from any thread, also while a task waits for an item; idempotent."""

    async def aclose(self) -> None:
        """End the stream; idempotent."""
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __del__(self) -> None:
        self.cancel()


class AsyncItemStream(AsyncStream, Generic[Item]):
    """An AsyncStream whose items a type checker knows; at run time it is the transport's own AsyncStream."""

    if TYPE_CHECKING:

        async def __anext__(self) -> Item: ...


class AsyncCalls(ABC):
    """Calls and streams of one connection, for one event loop."""

    @abstractmethod
    async def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        """Return the response message; raises what `Transport.call` raises."""

    @abstractmethod
    def stream(
        self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True
    ) -> AsyncStream:
        """Return the stream, which begins when its first item is waited for; `copy` as in `Transport.stream`.

        Raises ClosedError.
        """

    @abstractmethod
    def close(self) -> None:
        """End open calls with ClosedError and open streams with Cancelled; idempotent.

        The transport stays open: its owner closes it.
        """
