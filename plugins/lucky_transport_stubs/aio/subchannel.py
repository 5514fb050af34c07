"""Connections to servers that channels of one event loop share, as gRPC's subchannels are: `join`.

Channels with the same target and the same arguments use one connection; calls beyond `MOST_CALLS` at once go over
another. It is made when the first of them needs it and closed when the last one has left;
`grpc.use_local_subchannel_pool` keeps a channel's to itself.

The loop itself connects, a step at a time, and watches one descriptor then: there is no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport.shm.listener.connecting import Wait
from lucky_transport_stubs.client.connecting import connection_steps
from lucky_transport_stubs.words.options import Options, uses_local_pool

#: Calls at once over one connection: half of what a server takes, which counts a cancelled one for a while longer.
MOST_CALLS = 512


class SubchannelUser(Protocol):
    """A channel. What it is told comes on its loop's thread."""

    def connected(self, subchannel: Subchannel) -> None:
        """The server was met; not called where it had been before the channel joined."""
        ...

    def failed(self, subchannel: Subchannel, error: TransportError) -> None:
        """The server could not be met: the subchannel is of no more use."""
        ...

    def broken(self, subchannel: Subchannel, error: TransportError) -> None:
        """The connection has ended, maybe before `connected`: the subchannel is of no more use."""
        ...


class Subchannel:
    """One connection, and the attempt that makes it, which begins with the loop's next round. calls: None before it
    stands. is_over: it is of no more use.
    """

    def __init__(
        self, key: Hashable, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, max_receive_bytes: int
    ) -> None:
        self.calls: ClientCalls | None = None
        self.is_over = False
        self._key = key
        self._loop = loop
        self._steps = connection_steps(endpoint, max_receive_bytes)
        self._stop_waiting: Callable[[], object] = loop.call_soon(self._go_on, None).cancel
        self._reader: LoopReader | None = None
        self._users: dict[SubchannelUser, None] = {}
        on_child(self._end)  # there it is the parent's

    @property
    def is_full(self) -> bool:
        """True while it takes no more calls."""
        return self.calls is not None and self.calls.open_calls >= MOST_CALLS

    def add(self, user: SubchannelUser) -> None:
        """Keep the connection for the channel until it leaves, unless it is over."""
        self._users[user] = None

    def leave(self, user: SubchannelUser) -> None:
        """The channel has no call here any more; without another one the connection ends.

        On the thread of the loop, or on any while that does not run.
        """
        self._users.pop(user, None)
        if not self._users:
            self._end()
            if self.calls is not None:
                self.calls.close()
            else:
                self._give_up()

    def expect(self) -> None:
        """Something was sent, which the server may answer at once."""
        if self._reader is not None:
            self._reader.expect()

    def _go_on(self, is_readable: bool | None) -> None:
        """Take the next step of the attempt. is_readable: None for the first one."""
        if self.is_over:  # in a forked child, where the loop's table is the parent's too
            return
        self._stop_waiting()
        try:
            self._step(is_readable)
        except TransportError as error:
            self._failed(error)
        except BaseException:  # a signal handler's: nothing comes of this attempt any more
            self._failed(NotReachable("a signal handler interrupted the attempt to connect", backend="shm"))
            raise

    def _step(self, is_readable: bool | None) -> None:
        try:
            wait = self._steps.send(is_readable)
        except StopIteration as end:
            self._connected(end.value[0])
            return
        self._stop_waiting = _when_over(self._loop, wait, self._go_on)
        if self.is_over:  # a channel was dropped in the middle of the step
            self._give_up()

    def _give_up(self) -> None:
        self._stop_waiting()
        with contextlib.suppress(ValueError):  # it is in the middle of a step, after which it is given up
            self._steps.close()

    def _connected(self, calls: ClientCalls) -> None:
        with contextlib.ExitStack() as undo:
            undo.callback(calls.close)
            self._reader = LoopReader(calls, self._loop, self._broken)
            self.calls = calls  # not before: a channel may be dropped, and so leave, in the middle of anything
            undo.pop_all()
        if self.is_over:
            calls.close()
        for user in self._users:
            self._loop.call_soon(user.connected, self)  # not here: what one of them raises must not keep the others

    def _failed(self, error: TransportError) -> None:
        self._end()
        if self.calls is not None:
            self.calls.close()
        for user in self._users:
            self._loop.call_soon(user.failed, self, error)

    def _broken(self, error: TransportError) -> None:
        self._end()
        for user in tuple(self._users):
            user.broken(self, error)

    def _end(self) -> None:
        self.is_over = True
        others = _pool.get(self._key, [])
        if self in others:
            others.remove(self)
        if not others:
            _pool.pop(self._key, None)


def _when_over(loop: asyncio.AbstractEventLoop, wait: Wait, then: Callable[[bool], None]) -> Callable[[], object]:
    """Have the loop call `then(is_readable)` when the wait is over; return what takes that back."""
    timer = loop.call_later(wait.seconds, then, False)
    if wait.connection is None:
        return timer.cancel
    fd = wait.connection.fileno()
    loop.add_reader(fd, then, True)

    def stop() -> None:
        timer.cancel()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.remove_reader(fd)

    return stop


#: By key, the subchannels that are not over.
_pool: dict[Hashable, list[Subchannel]] = {}


def pool_key(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, options: Options, credentials: Any, compression: Any
) -> Hashable:
    """Return what channels have in common that share their subchannels."""
    key = (loop, endpoint, options, credentials, compression)
    try:
        hash(key)
    except TypeError:
        return object()
    return object() if uses_local_pool(options) else key


def join(
    user: SubchannelUser,
    key: Hashable,
    loop: asyncio.AbstractEventLoop,
    endpoint: Endpoint,
    max_receive_bytes: int,
) -> Subchannel:
    """Return a subchannel that takes calls of the channel, which stands, or says later whether it does."""
    for found in tuple(_pool.get(key, ())):
        if not found.is_full:
            found.add(user)
            if not found.is_over:  # the last other channel may be dropped in the middle of anything
                return found
    made = Subchannel(key, loop, endpoint, max_receive_bytes)
    made.add(user)
    _pool.setdefault(key, []).append(made)
    return made
