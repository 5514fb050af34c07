"""One channel's way to its server, in the place of grpc's compiled `AioChannel`: it joins a subchannel when a call
needs one, and another after the server has gone.

A call that does not wait for the server to be ready fails with the first attempt; the others have it repeated. What
ends the connection ends its calls at once; the channel is IDLE then, and the next call connects. Nothing is left behind
by `close`, nor when the channel is dropped after its loop has ended. A forked child's copy connects anew, if its loop
runs there, and touches nothing that its parent uses.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.event_loop import LoopCondition, is_running_here
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.aio.subchannel import LoopSubchannel
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.client.reach import ConnectivityState, State, pauses
from lucky_transport_stubs.client.subchannel import POOL, Subchannel, SubchannelUser, pool_key
from lucky_transport_stubs.words.metadata import USER_AGENT
from lucky_transport_stubs.words.options import Options, check_default_compression, user_agent
from lucky_transport_stubs.words.status import error_of

#: As grpc.aio has it, which servers may tell from programs with threads.
_USER_AGENT = USER_AGENT.replace("grpc-python/", "grpc-python-asyncio/")


class Connection(SubchannelUser):
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
        agent = user_agent(options, _USER_AGENT)
        check_default_compression(compression)
        self.settings = CallSettings(endpoint, options, credentials, agent)
        self.messages = self.settings.messages()
        self.standing = ConnectivityState(self.settings.refusal)
        self.target = self.settings.target.removeprefix("dns:///").encode()
        self._endpoint = endpoint
        self._key = pool_key(loop, endpoint, options, credentials, compression)
        self._is_insecure = credentials is None
        self._is_closing = False
        self._is_forked = False
        self._begin()
        on_child(self.renew_after_fork)

    def _begin(self) -> None:
        self._subchannel: LoopSubchannel | None = None  # that the next call goes over
        self._waiting: dict[RingCall, bool] = {}  # True: until the server is ready
        self._open_calls = 0
        self._watching = 0
        self._changed = changed = LoopCondition(self.loop)
        self.standing.listeners.append(lambda state: changed.notify())
        self._pauses = pauses()

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
        self.standing.renew_after_fork()
        if self._is_closing:
            self.standing.enter(State.SHUTDOWN)
        self._begin()

    # -- for the calls ------------------------------------------------------------------------------------------------

    def current(self) -> ClientCalls | None:
        """Return the connection that the next call goes over, if it stands."""
        if self._subchannel is None or self._subchannel.calls is None or self.settings.refusal is not None:
            return None
        self._subchannel.calls.pump()  # the server's goodbye may be there: then this is not the connection to use
        if self._subchannel is not None and self._subchannel.is_full:
            self._join()
        return None if self._subchannel is None else self._subchannel.calls

    def connect(self, call: RingCall, wait_for_ready: bool) -> None:
        """Have `connected` of the call called, or `failed`, now or later; not once it has `ended`."""
        if (refusal := self.settings.refusal) is not None:
            call.failed(error_of(refusal.code, refusal.details))
        else:
            self._waiting[call] = wait_for_ready
            self._try()

    def expect(self) -> None:
        """Something was sent, which the server may answer at once."""
        if self._subchannel is not None:
            self._subchannel.expect()

    def ended(self, call: RingCall) -> None:
        """The call has ended."""
        self._waiting.pop(call, None)
        self._open_calls -= 1
        self._release_if_unused()

    # -- what the subchannel says -------------------------------------------------------------------------------------

    def connected(self, subchannel: Subchannel) -> None:
        """It stands."""
        if subchannel is self._subchannel:
            self._pauses = pauses()
            self.standing.enter(State.READY)
            self._open_waiting()

    def failed(self, subchannel: Subchannel, error: TransportError) -> None:
        """It could not be connected."""
        if subchannel is self._subchannel:
            self._subchannel = None
            self.standing.enter(State.TRANSIENT_FAILURE)
            self._fail_waiting(error)

    def broken(self, subchannel: Subchannel, error: TransportError) -> None:
        """Its connection has ended, and with it its calls."""
        if subchannel is self._subchannel:
            self._subchannel = None
            self.standing.enter(State.IDLE)
            if self._waiting:  # it ended before they were opened
                self._fail_waiting(error)

    # -- within -------------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        """Begin to connect, unless that is done or under way."""
        if self._subchannel is None:
            self.standing.tries()
            self._join()
            if (subchannel := self._subchannel) is not None and subchannel.calls is not None:
                self.connected(subchannel)

    def _join(self) -> None:
        arguments = self._key, self.loop, self._endpoint, self.settings.max_receive_bytes
        self._subchannel = POOL.join(self, self._key, lambda: LoopSubchannel(*arguments))

    def _open_waiting(self) -> None:
        """Open the calls that wait, as long as there is a connection that takes them."""
        try:
            while self._waiting and (calls := self.current()) is not None:
                call = next(iter(self._waiting))
                del self._waiting[call]
                call.connected(calls)
        except BaseException:  # a signal handler's: the other calls go on
            self.loop.call_soon(self._open_waiting)
            raise

    def _fail_waiting(self, error: TransportError) -> None:
        """The attempt has come to nothing: another one follows for the calls that wait until the server is ready."""
        for call in [call for call, is_patient in self._waiting.items() if not is_patient]:
            del self._waiting[call]
            self.loop.call_soon(call.failed, error)
        self.loop.call_later(next(self._pauses), self._try_again)

    def _try_again(self) -> None:
        if self._waiting or self._watching:
            self._try()

    def _close(self) -> None:
        self.standing.enter(State.SHUTDOWN)
        self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self.standing.is_closed and (not self._open_calls or self.loop.is_closed()):
            POOL.leave(self, self._key)
