"""Connections to servers that channels share, as gRPC's subchannels are: `POOL.join`.

Channels with the same target and the same arguments use one connection: those of threads, and those of one event loop.
Calls beyond `MOST_CALLS` at once go over another. It is made when the first of them needs it and closed when the last
one has left; `grpc.use_local_subchannel_pool` keeps a channel's to itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import PeerTimeout, TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.completion_thread import CallGroup
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport.uninterrupted import uninterrupted
from lucky_transport_stubs.client.connecting import connect
from lucky_transport_stubs.words.options import Options, uses_local_pool

#: Calls at once over one connection: half of what a server takes, which counts a cancelled one for a while longer.
MOST_CALLS = 512


class SubchannelUser(CallGroup):
    """A channel. That of an event loop is told what follows on the loop's thread, and another one from any."""

    def connected(self, subchannel: Subchannel) -> None:
        """The server was met; an event loop says so, unless it had been before the channel joined."""

    def failed(self, subchannel: Subchannel, error: TransportError) -> None:
        """The server could not be met, says an event loop: the subchannel is of no more use."""

    def broken(self, subchannel: Subchannel, error: TransportError) -> None:
        """The connection has ended, maybe before `connected`: the subchannel is of no more use. It must not block."""


class Subchannel:
    """One connection, and the attempt that makes it. calls: None before it stands. is_over: it is of no more use.

    users: the channels that it is kept for, unless it is over.
    """

    def __init__(self, key: Hashable) -> None:
        self.calls: ClientCalls | None = None
        self.is_over = False
        self._key = key
        self.users: dict[SubchannelUser, None] = {}
        on_child(self._end)  # there it is the parent's

    @property
    def is_full(self) -> bool:
        """True while it takes no more calls."""
        return self.calls is not None and (self.calls.error is not None or len(self.calls.open_calls) >= MOST_CALLS)

    def leave(self, user: SubchannelUser) -> None:
        """End the channel's calls; without another channel the connection ends."""
        with POOL.lock:
            self.users.pop(user, None)
            self.is_over = self.is_over or not self.users
        if self.is_over:
            self._let_go()
            self._end()  # last: what a signal handler interrupts is made again
        elif self.calls is not None:
            self.calls.end_calls(user)

    def _let_go(self) -> None:
        if self.calls is not None:
            self.calls.close()

    def _broken(self, error: TransportError) -> None:
        self._end()
        for user in tuple(self.users):
            user.broken(self, error)

    def _end(self) -> None:
        self.is_over = True
        POOL.remove(self, self._key)


class ThreadSubchannel(Subchannel):
    """A connection for any threads: one of them makes it, for all that need it meanwhile."""

    def __init__(self, key: Hashable, endpoint: Endpoint, max_receive_bytes: int) -> None:
        super().__init__(key)
        self._endpoint = endpoint
        self._max_receive_bytes = max_receive_bytes
        self._connecting = threading.Lock()
        self._began_ns = 0
        self._error: TransportError | None = None  # of the attempt that has failed

    def connect(self, since_ns: int, deadline: Deadline | None) -> ClientCalls | None:
        """Return the connection, made now if there is none; None where an attempt has failed that began before then.

        Does not wait for an engine. Raises PeerTimeout at the deadline; what `connect` raises, also where that was
        another thread's attempt.
        """
        held = False
        try:
            [held] = uninterrupted(self._connecting.acquire, True, -1 if deadline is None else deadline.remaining_s)
            if not held:
                raise PeerTimeout(f"{self._endpoint} was not met before the deadline", backend="shm")
            if self._error is None:
                return self.calls or self._connect(deadline)
            if self._began_ns < since_ns:
                return None
            raise copy_error(self._error, "shm")
        finally:
            if held:
                self._connecting.release()

    def _connect(self, deadline: Deadline | None) -> ClientCalls:
        self._began_ns = monotonic_ns()
        try:
            calls = self.calls = connect(self._endpoint, self._max_receive_bytes, deadline)
        except TransportError as error:
            if not isinstance(error, PeerTimeout):  # that is the deadline's, which is this caller's alone
                self._error = copy_error(error, "shm")
                self._end()
            raise
        calls.on_break = self._broken
        if self.is_over or calls.error is not None:  # all have left, or it was too early to be told
            calls.close()
        return calls


class SubchannelPool:
    """By key, the subchannels that are not over. lock: held while channels join and leave."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, in a forked child: the connections are its parent's."""
        self.lock = threading.RLock()  # reentrant: a channel may be dropped in the middle of anything
        self._subchannels: dict[Hashable, dict[Any, None]] = {}

    def join(self, user: SubchannelUser, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a subchannel that takes calls of the channel: `make()` makes one where there is none."""
        with self.lock:
            for found in tuple(self._subchannels.get(key, ())):
                if not found.is_full:
                    found.users[user] = None
                    if not found.is_over:  # the last other channel may be dropped in the middle of anything
                        return found
            made = make()
            made.users[user] = None
            self._subchannels.setdefault(key, {})[made] = None
            return made

    def leave(self, user: SubchannelUser, key: Hashable) -> None:
        """End the channel's calls, and connections that no other channel uses; idempotent."""
        for subchannel in tuple(self._subchannels.get(key, ())):
            subchannel.leave(user)

    def has(self, key: Hashable) -> bool:
        """True when there may be something to leave. For finalizers: it takes no lock."""
        return key in self._subchannels

    def remove(self, subchannel: Subchannel, key: Hashable) -> None:
        """It is over; idempotent."""
        with self.lock:
            others = self._subchannels.get(key, {})
            others.pop(subchannel, None)
            if not others:
                self._subchannels.pop(key, None)


#: There is one in a process.
POOL = SubchannelPool()
on_child(POOL.reset)


def pool_key(place: object, endpoint: Endpoint, options: Options, credentials: Any, compression: Any) -> Hashable:
    """Return what channels have in common that share their subchannels. place: their event loop, None of threads."""
    key = (place, endpoint, options, credentials, compression)
    try:
        hash(key)
    except TypeError:
        return object()
    return object() if uses_local_pool(options) else key
