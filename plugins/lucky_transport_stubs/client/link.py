"""A channel's way to its engine: it joins a connection when one is first needed, and another after that broke.

    calls = link.current() or link.reach(deadline)      # `lucky_transport.rpc.client.ClientCalls`
    answer = calls.exchange(path, request, deadline, group=link.group)

A forked child's copy joins one of its own process when one is first needed there.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import partial

from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, ClosedError, NotReachable, TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.uninterrupted import Latch, start_thread
from lucky_transport_stubs.client.connection_monitor import CONNECTION_MONITOR
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.client.reach import LONGEST_PAUSE_S, ConnectivityState, State, pauses
from lucky_transport_stubs.client.subchannel import MOST_CALLS, POOL, Subchannel, SubchannelUser, ThreadSubchannel


class _Group(SubchannelUser):
    """The calls of a link, which the connections do not hold."""

    def __init__(self, link: Link) -> None:
        self._link = weakref.ref(link)

    def broken(self, subchannel: Subchannel, error: TransportError) -> None:
        if (link := self._link()) is not None:
            link.broken(subchannel.calls)


class Link:
    """The way to `shm://name`. calls: the connection, if there is one. standing: how the channel stands. group: its
    calls. target(): where the program believes it leads; like `check_connectivity_state` of grpc's compiled channel.

    key: of `pool_key`. forks: how many processes lie between this one and the one that made the link. Dropping the last
    reference leaves the connection.
    """

    def __init__(self, endpoint: Endpoint, settings: CallSettings, key: Hashable) -> None:
        self._key = key
        self._make = partial(ThreadSubchannel, key, endpoint, settings.max_receive_bytes)
        self.group = _Group(self)
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
        """Return the connection if it stands and takes a call.

        A call asks before it is sent, so it can go over a new connection when this one has ended.
        """
        calls = self.calls
        if calls is not None:
            if len(calls.open_calls) >= MOST_CALLS:
                return None
            # While a call is open a thread reads, or will.
            if calls.error is None and not calls.open_calls and calls.pipe.ready():
                calls.pump()  # reads what an engine that closed said; `ConnectionMonitor` notices one that died
            if calls.error is not None:
                self.broken(calls)
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
        following = pauses()
        while True:
            self._closing.wait(min(next(following), float("inf") if deadline is None else deadline.remaining_s))
            try:
                return self.attempt(deadline)
            except (NotReachable, Busy):
                if not is_wanted():
                    raise

    def pause(self, seconds: float, deadline: Deadline | None, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Wait so long, while it is wanted and the link is open; False when the deadline came first."""
        end = Deadline(seconds if deadline is None else min(seconds, deadline.remaining_s))
        while is_wanted() and not end.expired and not self._closing.wait(min(end.remaining_s, LONGEST_PAUSE_S)):
            pass
        return deadline is None or not deadline.expired

    def attempt(self, deadline: Deadline | None = None) -> ClientCalls:
        """Return a connection, made now if there is none; does not wait for an engine. Raises what `reach` raises."""
        self.standing.check()
        self.standing.tries()
        since_ns = monotonic_ns()
        subchannel = POOL.join(self.group, self._key, self._make)
        try:
            while (calls := subchannel.connect(since_ns, deadline)) is None:
                subchannel = POOL.join(self.group, self._key, self._make)
            self.calls = calls
        except TransportError:
            if subchannel.is_over:
                self.standing.enter(State.TRANSIENT_FAILURE)
            raise
        finally:
            if self.is_closed:
                self.close()  # once more, for what it joined meanwhile
        self.standing.enter(State.READY)
        if calls.error is not None:  # before a listener could be notified
            self.broken(calls)
        calls.check(self.group)
        return calls

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
        self.group.error = ClosedError("the channel is closed", backend="shm")
        POOL.leave(self.group, self._key)
        self.calls = None
        self._closing.set()  # last: a close that a signal handler interrupts is made again

    def broken(self, calls: ClientCalls | None) -> None:
        """A connection has ended, and with it its calls."""
        if calls is not None and self.calls is calls:
            self.calls = None
            self.standing.enter(State.IDLE)

    def renew_after_fork(self) -> None:
        """In a forked child: forget the connection and the calls, which are the parent's, and locks of lost threads."""
        self.forks += 1
        self.calls = None
        self.standing.renew_after_fork()
        self._closing, self._connector = Latch(), None

    def __del__(self) -> None:
        if "_closing" in vars(self) and not self._closing.is_set and POOL.has(self._key) and not sys.is_finalizing():
            CONNECTION_MONITOR.do(partial(POOL.leave, self.group, self._key))


def _connect_when_ready(link: weakref.ref[Link], is_wanted: Callable[[], bool]) -> None:
    with contextlib.suppress(TransportError):  # it is not wanted any more, or cannot be had: calls will report it
        if (found := link()) is not None:
            found.reach(wait_for_ready=True, is_wanted=is_wanted)
