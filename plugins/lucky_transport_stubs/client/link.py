"""A channel's connection to its engine: made when first needed, and again after it broke.

    calls = link.current() or link.reach(deadline)      # `lucky_transport.rpc.client.ClientCalls`

A forked child's copy makes a connection of its own when one is first needed there.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable

from lucky_transport.deadline import Deadline, log_long_wait
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, NotReachable, PeerTimeout, TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.uninterrupted import Latch, start_thread, uninterrupted
from lucky_transport_stubs.client.connecting import connect
from lucky_transport_stubs.client.connection_monitor import CONNECTION_MONITOR
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.client.reach import LONGEST_PAUSE_S, ConnectivityState, State, pauses


class Link:
    """The connection to `shm://name`. calls: the connection, if there is one. standing: how the channel stands.
    target(): where the program believes it leads; like `check_connectivity_state` of grpc's compiled channel.

    forks: how many processes lie between this one and the one that made the link. Dropping the last reference closes
    the connection.
    """

    def __init__(self, endpoint: Endpoint, settings: CallSettings) -> None:
        self._connecting = threading.Lock()  # one thread at a time; first of all: pickle refuses it, as it does grpc's
        self.endpoint = endpoint
        self.settings = settings
        self.calls: ClientCalls | None = None
        self.standing = ConnectivityState(settings.refusal)
        self.forks = 0
        self.target: Callable[[], bytes] = settings.target.encode
        self._closing = Latch()
        self._connector: threading.Thread | None = None
        on_child(self.renew_after_fork)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self.standing.is_closed

    def check_connectivity_state(self, try_to_connect: bool) -> int:
        """Return the number of the state; makes an attempt to connect when asked to."""
        if try_to_connect:
            self.connect_soon(lambda: False)
        return self.standing.number

    def current(self) -> ClientCalls | None:
        """Return the connection if it stands.

        A call asks before it is sent, so it can go over a new connection when this one has ended.
        """
        calls = self.calls
        if calls is not None:
            if not calls.open_calls:  # else a thread reads already, or will
                calls.pump()  # reads what an engine that closed said; `ConnectionMonitor` notices one that died
            try:
                calls.check()
            except TransportError:
                self._broke(calls)
        return self.calls

    def reach(
        self,
        deadline: Deadline | None = None,
        *,
        wait_for_ready: bool = False,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> ClientCalls:
        """Return the connection, made now if there is none; waits for the engine only if asked to, while it is wanted.

        Raises NotReachable when no server listens, PeerTimeout at the deadline, Busy when the engine has too many
        clients, RemoteProtocolError when it is none of ours, StatusError when the link is closed.
        """
        try:
            return self.attempt(deadline)
        except (NotReachable, Busy):
            if not wait_for_ready or not is_wanted():
                raise
        with log_long_wait(str(self.endpoint), None if deadline is None else deadline.timeout_s):
            return self._await(deadline, is_wanted)

    def _await(self, deadline: Deadline | None, is_wanted: Callable[[], bool]) -> ClientCalls:
        """Return the connection as soon as there is an engine; raises what `reach` raises."""
        following = pauses()
        while True:
            pause_s = next(following)
            self._closing.wait(pause_s if deadline is None else min(pause_s, deadline.remaining_s))
            try:
                return self.attempt(deadline)
            except (NotReachable, Busy):
                if not is_wanted():
                    raise

    def pause(self, seconds: float, deadline: Deadline | None, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Wait so long, while it is wanted and the link is open; False when the deadline came first."""
        end = Deadline(seconds)
        while is_wanted() and not end.expired and not (deadline is not None and deadline.expired):
            until_s = end.remaining_s if deadline is None else min(end.remaining_s, deadline.remaining_s)
            if self._closing.wait(min(until_s, LONGEST_PAUSE_S)):
                break
        return deadline is None or not deadline.expired

    def attempt(self, deadline: Deadline | None = None) -> ClientCalls:
        """Return the connection, made now if there is none; does not wait for an engine. Raises what `reach` raises."""
        held = False
        try:
            [held] = uninterrupted(self._connecting.acquire, True, -1 if deadline is None else deadline.remaining_s)
            if not held:
                raise self._late(deadline)
            self._check(deadline)
            return self.calls or self._connect(deadline)
        finally:
            if held:
                self._connecting.release()

    def connect_soon(self, is_wanted: Callable[[], bool]) -> None:
        """Have a thread connect as soon as there is an engine, while it is wanted; raises nothing."""
        if self.calls is None and (self._connector is None or not self._connector.is_alive()):
            self._connector = threading.Thread(
                target=_connect_when_ready, args=(weakref.ref(self), is_wanted), name="grpc channel", daemon=True
            )
            start_thread(self._connector)

    def close(self) -> None:
        """End every call as CANCELLED and let go of the connection; idempotent."""
        self.standing.enter(State.SHUTDOWN)
        self._closing.set()
        calls = self.calls
        if calls is not None:
            calls.close()
            self.calls = None  # last: a close that a signal handler interrupts is made again

    def renew_after_fork(self) -> None:
        """In a forked child: forget the connection and the calls, which are the parent's, and locks of lost threads."""
        self.forks += 1
        self.calls = None
        self.standing.renew_after_fork()
        self._connecting, self._closing, self._connector = threading.Lock(), Latch(), None

    def _check(self, deadline: Deadline | None) -> None:
        """Raise the error for a channel that takes no call, or for a deadline that has passed."""
        self.standing.check()
        if deadline is not None and deadline.expired:
            raise self._late(deadline)

    def _late(self, deadline: Deadline | None) -> PeerTimeout:
        assert deadline is not None  # else there is no being late
        return PeerTimeout(f"no server or engine at {self.endpoint} within {deadline.timeout_s:g} s", backend="shm")

    def _connect(self, deadline: Deadline | None) -> ClientCalls:
        self.standing.tries()
        try:
            calls = connect(self.endpoint, self.settings.max_receive_bytes, deadline)
        except TransportError:
            self.standing.enter(State.TRANSIENT_FAILURE)
            raise
        self.calls = calls
        self.standing.enter(State.READY)
        calls.on_break = _breaker(weakref.ref(self), weakref.ref(calls))
        try:
            calls.check()
            self._check(deadline)
        except TransportError:  # it broke, or we were closed, before a listener could be notified
            self._broke(calls)
            calls.close()
            raise
        return calls

    def _broke(self, calls: ClientCalls | None) -> None:
        if calls is not None and self.calls is calls:
            self.calls = None
            self.standing.enter(State.IDLE)

    def __del__(self) -> None:
        if "calls" in vars(self) and self.calls is not None and not sys.is_finalizing():
            CONNECTION_MONITOR.do(self.calls.close)


def _breaker(link: weakref.ref[Link], calls: weakref.ref[ClientCalls]) -> Callable[[TransportError], None]:
    """Return what a connection calls at its end; it holds neither of the two."""

    def on_break(error: TransportError) -> None:
        if (found := link()) is not None:
            found._broke(calls())  # pyright: ignore[reportPrivateUsage]

    return on_break


def _connect_when_ready(link: weakref.ref[Link], is_wanted: Callable[[], bool]) -> None:
    try:
        found = link()
        if found is not None:
            found.reach(wait_for_ready=True, is_wanted=is_wanted)
    except TransportError:  # it is not wanted any more, or cannot be had: calls will report it
        return
