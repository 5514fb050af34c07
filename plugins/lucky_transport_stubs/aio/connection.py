"""One channel's way to its server, in the place of grpc's compiled `AioChannel`: it connects when a call needs it,
reads for all calls, and connects anew after the server has gone.

The loop watches one descriptor; a thread of ours is busy for as long as it takes to meet the server. A call that does
not wait for the server to be ready fails with the first attempt; the others have it repeated. What ends the connection
ends its calls at once; the channel is IDLE then, and the next call connects. Nothing is left behind by `close`, nor
when the channel is dropped after its loop has ended. A forked child's copy connects anew, if its loop runs there, and
touches nothing that its parent uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.event_loop import LoopCondition, LoopReader, is_running_here
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.client.connecting import connect
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.client.reach import LONGEST_PAUSE_S, ConnectivityState, State, pauses
from lucky_transport_stubs.words.metadata import USER_AGENT
from lucky_transport_stubs.words.options import Options, primary_user_agent
from lucky_transport_stubs.words.status import error_of

__all__ = ["Connection"]

#: As grpc.aio has it, which servers may tell from programs with threads.
_USER_AGENT = USER_AGENT.replace("grpc-python/", "grpc-python-asyncio/")


class _Arriving:
    """A connection on its way to the loop; closed where the loop ends before it is there."""

    def __init__(self, calls: ClientCalls) -> None:
        self._calls: ClientCalls | None = calls

    def take(self) -> ClientCalls:
        """Return the connection, which belongs to the caller from now on; once."""
        calls, self._calls = self._calls, None
        assert calls is not None
        return calls

    def __del__(self) -> None:
        if self._calls is not None:
            self._calls.close()


class Connection:
    """One channel's way to the server at `endpoint`, on `loop`. standing: how the channel stands.

    options, credentials (None of an insecure channel), compression: the channel's.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        options: Options,
        credentials: Any = None,
        compression: Any = None,
    ) -> None:
        self.loop = loop
        agent = f"{primary_user_agent(options)} {_USER_AGENT}".lstrip()
        self.settings = CallSettings(endpoint, options, credentials, compression, agent)
        self.messages = self.settings.messages()
        self.standing = ConnectivityState(self.settings.refusal)
        self.target = self.settings.target.removeprefix("dns:///").encode()
        self._endpoint = endpoint
        self._is_insecure = credentials is None
        self._calls: ClientCalls | None = None
        self._reader: LoopReader | None = None
        self._is_closing = False
        self._is_forked = False
        self._begin()
        on_child(self.renew_after_fork)

    def _begin(self) -> None:
        self._waiting: dict[asyncio.Future[ClientCalls | None], bool] = {}  # True: until the server is ready
        self._open_calls = 0
        self._watching = 0
        self._changed = changed = LoopCondition(self.loop)
        self.standing.listeners.append(lambda state: changed.notify())
        self._pauses = pauses()
        self._is_trying = False

    # -- what the Python half of grpc.aio calls -----------------------------------------------------------------------

    def call(
        self,
        method: bytes,
        deadline: float | None,
        python_call_credentials: Any,
        wait_for_ready: bool | None,
        registered_call_handle: int | None = None,
    ) -> RingCall:
        """Return a call that is not started.

        Raises UsageError once closed, in a forked child on another loop, and for credentials on an insecure channel;
        AttributeError, TypeError for no credentials.
        """
        if self._is_forked and asyncio._get_running_loop() not in (None, self.loop):
            text = "this channel belongs to the event loop of the parent process; make a new one after fork()"
            raise grpc.aio.UsageError(text)
        if self._is_closing:
            raise grpc.aio.UsageError("Channel is closed.")
        if python_call_credentials is not None and self._is_insecure:
            raise grpc.aio.UsageError("Call credentials are only valid on secure channels")
        timeout_s = None if deadline is None else deadline - time.time()
        prepared = self.settings.prepare(method.decode(), timeout_s, wait_for_ready, python_call_credentials)
        self._open_calls += 1
        if prepared.timeout_s is not timeout_s:  # the service config's
            deadline = None if prepared.timeout_s is None else time.time() + prepared.timeout_s
        return RingCall(self, prepared, deadline)

    def get_registered_call_handle(self, method: bytes) -> int:
        """Return 0: methods get their numbers by themselves."""
        return 0

    def check_connectivity_state(self, try_to_connect: bool) -> int:
        """Return the number of the state; begins to connect when asked to and not connected."""
        number = self.standing.number
        if try_to_connect and not self._is_closing:
            self._try()
        return number

    async def watch_connectivity_state(self, last_observed_state: int, deadline: float | None) -> bool:
        """Return True once the state is another one. Raises UsageError when closed."""
        if self._is_closing:
            raise grpc.aio.UsageError("Channel is closed.")
        self._watching += 1
        try:
            await self._changed.until(lambda: self.standing.number != last_observed_state)
        finally:
            self._watching -= 1
        return True

    def closing(self) -> None:
        """Take no new calls; those that are open go on."""
        self._is_closing = True

    def closed(self) -> bool:
        """True after `closing`."""
        return self._is_closing

    def close(self) -> None:
        """Let go of everything once the open calls have ended; from any thread, idempotent."""
        self._is_closing = True
        if self.loop.is_running() and not is_running_here(self.loop):
            self.loop.call_soon_threadsafe(self._close)  # dropped by another thread
        else:
            self._close()

    def renew_after_fork(self) -> None:
        """In a forked child: forget the connection, which is the parent's, and all that waits for it."""
        self._is_forked = True
        self._calls = self._reader = None
        self.standing.renew_after_fork()
        if self._is_closing:
            self.standing.enter(State.SHUTDOWN)
        self._begin()

    # -- for the calls ------------------------------------------------------------------------------------------------

    def current(self) -> ClientCalls | None:
        """Return the connection if it stands."""
        if self._calls is not None:
            self._calls.pump()  # the server's goodbye may be there: then this is not the connection to use
        return None if self.settings.refusal is not None else self._calls

    def connect(self, wait_for_ready: bool) -> asyncio.Future[ClientCalls | None]:
        future: asyncio.Future[ClientCalls | None] = self.loop.create_future()
        if (refusal := self.settings.refusal) is not None:
            future.set_exception(error_of(refusal.code, refusal.details))
            return future
        self._waiting[future] = wait_for_ready
        future.add_done_callback(lambda future: self._waiting.pop(future, None))
        self._try()
        return future

    def expect(self) -> None:
        if self._reader is not None:
            self._reader.expect()

    def ended(self) -> None:
        self._open_calls -= 1
        self._release_if_unused()

    # -- within -------------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        """Begin to connect, unless that is done or under way."""
        if self._calls is None and not self._is_trying:
            self._is_trying = True
            self.standing.tries()
            run_on_kept_thread(self._meet)
            if self._is_forked:
                self._look_in()

    def _look_in(self) -> None:
        """Have the loop run while we connect: in a forked child its parent may take what would wake it."""
        if self._is_trying:
            self.loop.call_later(LONGEST_PAUSE_S, self._look_in)

    def _meet(self) -> None:
        """Meet the server; on a thread that is kept."""
        try:
            found = _Arriving(connect(self._endpoint, self.settings.max_receive_bytes, watched=False))
            then: Callable[[], None] = partial(self._connected, found)
        except TransportError as error:
            then = partial(self._failed, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self.loop.call_soon_threadsafe(then)

    def _connected(self, found: _Arriving) -> None:
        self._is_trying = False
        calls = found.take()
        self._reader = LoopReader(calls, self.loop, self._broken)
        self._calls = calls  # not before: the channel may be dropped, and so closed, in the middle of anything
        self._pauses = pauses()
        self.standing.enter(State.READY)
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(calls)
        self._release_if_unused()

    def _failed(self, error: TransportError) -> None:
        self._is_trying = False
        self.standing.enter(State.TRANSIENT_FAILURE)
        for future, is_patient in tuple(self._waiting.items()):
            if not is_patient and not future.done():
                future.set_exception(error)
        self.loop.call_later(next(self._pauses), self._try_again)

    def _try_again(self) -> None:
        if self._waiting or self._watching:
            self._try()

    def _broken(self, error: TransportError) -> None:
        """The connection has ended, and with it its calls."""
        self._calls = self._reader = None
        self.standing.enter(State.IDLE)

    def _close(self) -> None:
        self.standing.enter(State.SHUTDOWN)
        self._release_if_unused()

    def _release_if_unused(self) -> None:
        is_unused = not self._open_calls or self.loop.is_closed()
        if self.standing.is_closed and self._calls is not None and is_unused:
            self._calls.close()
