"""An asyncio gRPC server whose callers come through shared memory: a `grpc.aio.Server`.

    server = aio_server()
    add_GreeterServicer_to_server(Greeter(), server)
    server.add_insecure_port("shm://demo")
    await server.start()

It lives on the loop that it was made on, and has no thread of its own. A server that is not stopped leaves nothing
behind: it ends when it is dropped and when the program ends. `stop` refuses new calls at once, waits up to the grace
for the open ones, cancels what is left, and leaves nothing behind; the shortest grace of several counts.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import enum
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any
from weakref import WeakSet

from lucky_transport.errors import ClosedError
from lucky_transport.fork import on_child
from lucky_transport.rpc.event_loop import idle_of
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.listener.server_loop import ServerLoop
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.answering import answer
from lucky_transport_stubs.aio.rpc import ServerRpc
from lucky_transport_stubs.grpc_inside import AioServerBase, appears_as, working_loop
from lucky_transport_stubs.server.admission import Admission
from lucky_transport_stubs.server.handlers import AwaitedHandlers
from lucky_transport_stubs.server.port import CLOSE_MESSAGE, PORT, AddsHandlersAndPorts, Counters, server_loop_at
from lucky_transport_stubs.words.credentials import PortSecurity
from lucky_transport_stubs.words.options import (
    check_default_compression,
    log_ignored,
    max_receive_bytes,
    max_send_bytes,
)
from lucky_transport_stubs.words.status import error_of


class ServerLoopReader:
    """Has `loop` serve `server_loop` from now on, in these context variables, whichever task asks it to look."""

    def __init__(self, server_loop: ServerLoop, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
        self._server_loop = server_loop
        self._loop = loop
        self._context = context
        self._fd = server_loop.fileno()
        self._next: asyncio.Handle | None = None
        self._looks_soon = False
        self._is_over = False
        on_child(self.close_after_fork)
        context.run(loop.add_reader, self._fd, self._look)
        context.run(self._look)

    def close(self) -> None:
        """Serve no more; the server_loop is left as it is. Idempotent."""
        self._forget_next()
        if not self._is_over and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._is_over = True

    def close_after_fork(self) -> None:
        """In a forked child: the loop's descriptors are the parent's too; leave them alone."""
        self._is_over = True

    def expect(self) -> None:
        """A call was answered: where the next one may be there before a sleeping loop wakes, look for it."""
        if not self._is_over and self._server_loop.expect() and not self._looks_soon:
            self._look_soon()

    def _look(self) -> None:
        """Handle what there is, and see to it that this is called again in time."""
        self._forget_next()
        try:
            there_was_something = self._server_loop.look(idle_of(self._loop))
        except ClosedError:  # a forked child: the callers are the parent's
            return
        except BaseException:  # a signal handler's: clients may have been told that they need not wake us
            self._look_soon()
            raise
        if there_was_something:
            self._look_soon()
        elif (patience_ns := self._server_loop.patience_ns) is not None:
            self._next = self._loop.call_later(patience_ns / 1e9, self._look, context=self._context)

    def _look_soon(self) -> None:
        self._forget_next()
        self._next, self._looks_soon = self._loop.call_soon(self._look, context=self._context), True

    def _forget_next(self) -> None:
        self._looks_soon = False
        if self._next is not None:
            self._next.cancel()
            self._next = None


_Code = grpc.StatusCode


class _State(enum.Enum):
    READY = enum.auto()
    RUNNING = enum.auto()
    REFUSING = enum.auto()
    STOPPING = enum.auto()
    STOPPED = enum.auto()


def aio_server(
    migration_thread_pool: Executor | None = None,
    handlers: Iterable[grpc.GenericRpcHandler] | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] | None = None,
    options: Sequence[tuple[str, Any]] | None = None,
    maximum_concurrent_rpcs: int | None = None,
    compression: grpc.Compression | None = None,
) -> Server:
    """Return a server that is not started; the arguments are those of `grpc.aio.server`. `compression` changes nothing.

    Raises ValueError for what is no interceptor and for a limit below one, AttributeError for a handler that is none,
    TypeError and ValueError for a compression that is none.
    """
    check_default_compression(compression)
    return Server(migration_thread_pool, handlers or (), interceptors or (), options or (), maximum_concurrent_rpcs)


@appears_as(AioServerBase)
class Server(AddsHandlersAndPorts, AioServerBase):
    """Made by `aio_server`."""

    def __init__(
        self,
        pool: Executor | None,
        handlers: Iterable[grpc.GenericRpcHandler],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        options: Sequence[tuple[str, Any]],
        maximum_concurrent_rpcs: int | None,
    ) -> None:
        self._server_loops: dict[ServerLoop, str] = {}  # each with its address
        self._readers: list[ServerLoopReader] = []
        self._loop = working_loop()
        self._stopped = asyncio.Event()
        strangers = [each for each in interceptors if not isinstance(each, grpc.aio.ServerInterceptor)]
        if strangers:
            raise ValueError(f"Interceptor must be ServerInterceptor, the following are invalid: {strangers}")
        if maximum_concurrent_rpcs is not None and maximum_concurrent_rpcs <= 0:
            raise ValueError("maximum_concurrent_rpcs should be a positive integer")
        self._pool = pool
        self._handlers = AwaitedHandlers(handlers, interceptors)
        self._admission = Admission(maximum_concurrent_rpcs)
        self._max_receive_bytes = max_receive_bytes(options)
        log_ignored(options)
        self._max_send_bytes = max_send_bytes(options)
        self._state = _State.READY
        self._rpcs: dict[ServerRpc, None] = {}
        _servers.add(self)

    # -- before the start ---------------------------------------------------------------------------------------------

    def _add_port(self, address: str, security: PortSecurity) -> int:
        begin = partial(self._begin, security, self.counters_at(address))
        server_loop = server_loop_at(address, begin, self._max_receive_bytes)
        self._server_loops[server_loop] = address
        if self._state is _State.RUNNING:
            self._readers.append(self._start(server_loop))
        return PORT

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Answer callers from now on. Raises UsageError once it was stopped."""
        if self._state is _State.RUNNING:
            return
        if self._state is not _State.READY:
            raise grpc.aio.UsageError("Server not in ready state")
        self._state = _State.RUNNING
        self._context = contextvars.copy_context()
        self._readers = [self._start(server_loop) for server_loop in self._server_loops]

    def _start(self, server_loop: ServerLoop) -> ServerLoopReader:
        server_loop.describe(self._description(self._server_loops[server_loop]))
        return ServerLoopReader(server_loop, self._loop, self._context)

    async def stop(self, grace: float | None) -> None:
        """Refuse new calls, wait `grace` seconds at most for the open ones, end what is left; returns at the end."""
        if self._state in (_State.READY, _State.STOPPED):
            return
        self.refuse(grace)
        self._state = _State.STOPPING
        self._close_once_idle()
        if grace:
            await self.wait_for_termination(grace)
            self._revoke_all()
        await self._stopped.wait()

    def refuse(self, grace: float | None) -> None:
        """Refuse new calls, and without a grace end the open ones; the server terminates in `stop`, not before."""
        if self._state is _State.RUNNING:
            self._state = _State.REFUSING
            self._admission.is_refusing = True
            for server_loop in self._server_loops:
                server_loop.stop_listening()
        if not grace:
            self._revoke_all()

    def _revoke_all(self) -> None:
        for rpc in tuple(self._rpcs):
            rpc.revoke(error_of(_Code.UNAVAILABLE, CLOSE_MESSAGE))

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        """Wait until the server has stopped; True when it had not at the timeout."""
        if self._state is _State.STOPPED:
            return False
        try:
            await asyncio.wait_for(self._stopped.wait(), timeout)
        except TimeoutError:
            return True
        return False

    def __del__(self) -> None:
        """Stop a server that is no longer referenced, as a rule after its loop has ended."""
        self._close()
        if self._loop.is_running():
            self._stopped.set()

    def _close_once_idle(self) -> None:
        if self._state is _State.STOPPING and not self._rpcs:
            self._state = _State.STOPPED
            self._close()
            self._stopped.set()

    def _close(self) -> None:
        while self._readers:
            self._readers.pop().close()
        while self._server_loops:
            self._server_loops.popitem()[0].close(ClosedError(CLOSE_MESSAGE, backend="shm"))

    # -- calls --------------------------------------------------------------------------------------------------------

    def _begin(self, security: PortSecurity, counters: Counters, call: ServerCall) -> None:
        if counters is not None:
            counters[call.path].add()
        if self._admission.is_refusing:
            self._admission.turn_away(call)
            return
        rpc = ServerRpc(call, self._loop, self._max_send_bytes, security)
        has_entered = self._admission.enter()
        self._rpcs[rpc] = None
        rpc.task = self._loop.create_task(self._answer(rpc, has_entered))
        rpc.on_cancelled = partial(self._end, rpc, has_entered)

    async def _answer(self, rpc: ServerRpc, has_entered: bool) -> None:
        rpc.on_cancelled = None
        try:
            await answer(rpc, partial(self._find, rpc, has_entered), self._pool)
        finally:  # not in a callback of the task, which would come a round of the loop later
            self._end(rpc, has_entered)

    def _end(self, rpc: ServerRpc, has_entered: bool) -> None:
        if has_entered:
            self._admission.leave()
        del self._rpcs[rpc]
        self._context.copy().run(rpc.close)
        self._close_once_idle()
        for reader in () if self._rpcs else self._readers:
            reader.expect()

    async def _find(self, rpc: ServerRpc, has_entered: bool) -> Any:
        """Return the call's handler; None where there is none for it: then it has its status."""
        handler = await self._handlers.find(rpc.call.path, rpc.call.metadata)
        return handler if self._admission.admits(rpc, handler, has_entered) else None


_servers: WeakSet[Server] = WeakSet()


@atexit.register
def _close_all() -> None:
    for server in tuple(_servers):
        server._close()  # pyright: ignore[reportPrivateUsage]
