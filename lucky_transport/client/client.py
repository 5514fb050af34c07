"""A connection with one attribute per service, for ordinary code and for asyncio, over any transport."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lucky_transport.aio import AsyncCalls
from lucky_transport.client.service import SERVICES
from lucky_transport.client.threads import ThreadedCalls
from lucky_transport.client.typed import AsyncServices, Services
from lucky_transport.closing import Closing
from lucky_transport.errors import ClosedError, LocalProtocolError, did_you_mean, plural
from lucky_transport.futures import CallFuture, settle
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Transport
from lucky_transport.uninterrupted import start_thread

__all__ = ["AsyncClient", "Client"]

T = TypeVar("T")


def _implemented(transport: Transport) -> frozenset[str] | None:
    found: set[str] = set()
    for attribute, methods in SERVICES.items():
        for name, method in methods.items():
            answer = transport.implements(method)
            if answer is None:
                return None
            if answer:
                found.add(f"{attribute}.{name}")
    return frozenset(found)


def _no_service(name: str) -> AttributeError:
    guess = did_you_mean(name, SERVICES)
    return AttributeError(f"no service {name!r}; {guess}there are: {', '.join(sorted(SERVICES))}")


def _text(kind: str, transport: Transport) -> str:
    where = f"of engine {transport.spec.engine!r} ({plural(transport.spec.num_envs, 'env')}) over {transport.name}"
    return f"<{kind} {where}; services: {', '.join(SERVICES)}>"


class Client(Closing, Services):
    """A connection with one attribute per service (`agent`, `scene`, `camera`, ...); `transport` steps the batch."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.transport = transport

    @property
    def spec(self) -> BatchSpec:
        """The engine's batch spec."""
        return self.transport.spec

    def implemented(self) -> frozenset[str] | None:
        """Return all names of the methods this engine answers ("scene.list_entities"), None where the transport cannot
        tell without trying.
        """
        return _implemented(self.transport)

    if not TYPE_CHECKING:  # type checkers know the services from typed.pyi and must refuse all others

        def __getattr__(self, name: str) -> Any:
            raise _no_service(name)

    def __dir__(self) -> list[str]:
        return sorted([*SERVICES, "close", "implemented", "spec", "transport"])

    def __repr__(self) -> str:
        return _text("client", self.transport)

    def close(self) -> None:
        """End the connection; idempotent."""
        self.transport.close()


class _Connection:
    """The transport and calls of an asynchronous client, once it is connected."""

    def __init__(self) -> None:
        self.opened: tuple[Transport, AsyncCalls] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @property
    def transport(self) -> Transport:
        return self._opened()[0]

    @property
    def calls(self) -> AsyncCalls:
        calls = self._opened()[1]
        if asyncio.get_running_loop() is not self.loop:
            raise LocalProtocolError(
                "this client belongs to another event loop", hint="connect in the loop that uses it"
            )
        return calls

    def _opened(self) -> tuple[Transport, AsyncCalls]:
        if self.opened is None:
            if self.closed:
                raise ClosedError("the client is closed", hint="connect again")
            raise LocalProtocolError(
                "the client is not connected yet", hint="use `async with connect_async(...)` or `await` it"
            )
        return self.opened


class AsyncClient(AsyncServices):
    """A connection for asyncio with one attribute per service.

    Use `async with connect_async(endpoint) as client`, or `client = await connect_async(...)` and
    `await client.close()`. It belongs to the event loop in which it was connected.
    """

    def __init__(self, open_transport: Callable[[], Transport]) -> None:
        self._connection = _Connection()
        self._open_transport = open_transport
        super().__init__(self._connection)

    @property
    def transport(self) -> Transport:
        """The transport below, which also steps the batch (its calls block)."""
        return self._connection.transport

    @property
    def spec(self) -> BatchSpec:
        """The engine's batch spec."""
        return self.transport.spec

    def implemented(self) -> frozenset[str] | None:
        """Return all names of the methods this engine answers ("scene.list_entities"), None where the transport cannot
        tell without trying.
        """
        return _implemented(self.transport)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise _no_service(name)

    def __dir__(self) -> list[str]:
        return sorted([*SERVICES, "close", "implemented", "spec", "transport"])

    def __repr__(self) -> str:
        opened = self._connection.opened
        if opened is None:
            return f"<asyncio client, {'closed' if self._connection.closed else 'not connected'}>"
        return _text("asyncio client", opened[0])

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._connect().__await__()

    async def __aenter__(self) -> Self:
        return await self._connect()

    async def _connect(self) -> Self:
        """Connect on a thread, so that a slow engine keeps no other task waiting; idempotent."""
        connection = self._connection
        if connection.closed:
            raise ClosedError("the client is closed", hint="connect again")
        if connection.opened is None:
            connection.loop = asyncio.get_running_loop()
            opening = _on_thread(lambda: _open(self._open_transport))
            try:
                connection.opened = await asyncio.shield(asyncio.wrap_future(opening))
            except asyncio.CancelledError:
                opening.add_done_callback(_close_unused)
                raise
        return self

    async def close(self) -> None:
        """End the connection and all its calls and streams; idempotent."""
        connection = self._connection
        opened, connection.opened, connection.closed = connection.opened, None, True
        if opened is not None:
            transport, calls = opened
            calls.close()
            await asyncio.wrap_future(_on_thread(transport.close))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _open(open_transport: Callable[[], Transport]) -> tuple[Transport, AsyncCalls]:
    transport = open_transport()
    try:
        return transport, transport.async_calls() or ThreadedCalls(transport)
    except BaseException:
        transport.close()
        raise


def _on_thread(call: Callable[[], T]) -> Future[T]:
    """Make the call on a thread of its own: the loop's executor is the program's, and may be full."""
    future: Future[T] = CallFuture()
    start_thread(threading.Thread(target=settle, args=(future, call), name="lucky_transport_open", daemon=True))
    return future


def _close_unused(opening: Future[tuple[Transport, AsyncCalls]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        transport, calls = opening.result()
        calls.close()
        transport.close()
