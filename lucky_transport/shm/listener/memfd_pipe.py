"""A pipe that a listener hands to a client: two rings, and the socket over which they met.

A side sleeps in an epoll over the socket, the peer's pidfd and an event descriptor of its own, so that a record, a
death, a close and an interrupt each wake it at once. An event loop watches the same epoll. Before it sleeps, a side
sets its park word and polls once more; the peer sends a byte only while the word is set. No send ever blocks, whatever
the peer does: each says so for itself (MSG_DONTWAIT). What the peer wrote before it left is read before its end is an
error.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from typing import NamedTuple

from lucky_transport import native
from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import ClosedError, PeerDied
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.files.liveness import Peer
from lucky_transport.shm.listener.handshake import FIRST_BYTES, RingPair
from lucky_transport.shm.ring_pipe import EndOptions, RingPipe, open_reader, open_writer
from lucky_transport.shm.timing import LONGEST_SLEEP_NS
from lucky_transport.shm.wait import LoopLooks

#: Looks of an event loop until it looks whether the peer lives, which the descriptor says to one that sleeps.
_LOOKS_PER_CHECK = 32
_LEFT = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class PipeResources(NamedTuple):
    """What a pipe owns and closes."""

    interrupts: EventFd
    connection: socket.socket
    peer: Peer

    def close(self) -> None:
        """Release every descriptor."""
        self.interrupts.close()
        self.connection.close()
        self.peer.close()


class MemfdPipe(RingPipe):
    """One end of `pair`, which owns `parts`. engine: which end this is. peer: what the other one is called in texts."""

    def __init__(
        self,
        pair: RingPair,
        parts: PipeResources,
        peer: str,
        *,
        engine: bool,
        strategy: int = 1,
    ) -> None:
        mine, theirs = (pair.park_engine, pair.park_client) if engine else (pair.park_client, pair.park_engine)
        inward, outward = (pair.to_engine, pair.to_client) if engine else (pair.to_client, pair.to_engine)
        arenas = (pair.arena_to_engine, pair.arena_to_client)
        from_arena, to_arena = arenas if engine else arenas[::-1]
        common: EndOptions = {"strategy": strategy, "arena_bytes": pair.arena_bytes}
        to_peer: EndOptions = {**common, "park": theirs, "socket": parts.connection.fileno(), "arena": to_arena}
        to_peer["backed"] = FIRST_BYTES
        to_me: EndOptions = {**common, "park": mine, "arena": from_arena}
        super().__init__(
            f"the pipe to {peer}",
            peer,
            open_writer(pair.mapping, outward, pair.size, **to_peer),
            open_reader(pair.mapping, inward, pair.size, **to_me),
        )
        self.pid = parts.peer.pid
        self._parts = parts
        self._interrupts, self._socket = parts.interrupts, parts.connection.fileno()
        self._strategy = strategy
        self._budget = native.SpinBudget(strategy)
        self._looks = LoopLooks(strategy)
        self._seen = self.reader.position
        self._looks_unchecked = 0
        self._is_armed = False
        self._epoll: select.epoll | None = None
        self._interrupted = False
        #: The peer listens and says that it carries calls on to another server.
        self.is_relay = False
        #: Called once, while the descriptors are still open; not in a forked child.
        self.on_close: Callable[[MemfdPipe], None] | None = None

    @property
    def end_fds(self) -> dict[int, int]:
        """What tells that the peer has left: descriptors, and the epoll events to look for. The first is also readable
        where the peer notified.
        """
        parts = self._parts
        ends = {parts.connection.fileno(): _LEFT}
        if parts.peer.pidfd >= 0:
            ends[parts.peer.pidfd] = select.EPOLLIN
        return ends

    def _watched(self) -> select.epoll:
        """Return the epoll over interrupts and the peer's end; made when first needed."""
        if self._epoll is None:
            epoll = select.epoll()
            epoll.register(self._interrupts.fd, select.EPOLLIN)
            for fd, events in self.end_fds.items():
                epoll.register(fd, events | select.EPOLLIN)
            self._epoll = epoll
        return self._epoll

    def take_notice(self) -> None:
        """Take one of the bytes by which the peer notified, if there is any: more of them only wake once more."""
        with contextlib.suppress(OSError):  # there is none, or the peer has left
            self._parts.connection.recv(1, socket.MSG_DONTWAIT)

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        """Wait for a record; see `Pipe.wait`."""
        if self._guard.closed:
            raise self._guard.error()
        longest_ns = min(timeout_ns, self._budget.ns)
        if not self._interrupted and native.spin((self.reader,), self._strategy, longest_ns, oversubscribed):
            self._budget.learn(longest_ns)
            return True
        start = monotonic_ns()
        with self._guard:
            found = self._park(start + timeout_ns)
        self._budget.learn(longest_ns + monotonic_ns() - start)
        if not found and self._guard.closed:
            raise self._guard.error()
        return found

    def _park(self, until_ns: int) -> bool:
        """Sleep until there is a record; False at `until_ns`, when interrupted and when closed."""
        while not self.reader.ready():
            if self._interrupted or self._guard.closed:
                self._interrupted = False
                self._interrupts.consume()
                return False
            left_ns = until_ns - monotonic_ns()
            spinning = self._strategy == 0 and left_ns > 0
            if spinning and native.spin((self.reader,), self._strategy, left_ns):
                return True
            if self.reader.arm():
                return True
            try:
                sleep_s = 0.0 if spinning else min(max(0, left_ns), LONGEST_SLEEP_NS) / 1e9
                seen = dict(self._watched().poll(sleep_s))
            finally:
                self.reader.disarm()
            if seen.pop(self._interrupts.fd, 0):
                self._interrupts.consume()
            if at_socket := seen.pop(self._socket, 0):
                self.take_notice()
            if (at_socket & _LEFT or seen) and not self._guard.closed:  # what is still in `seen` is the peer's pidfd
                if self.reader.ready():
                    return True
                raise self._left()
            if left_ns <= 0 and not self._interrupted:
                return self.reader.ready()
        return True

    def check_peer(self) -> None:
        with self._guard:
            if self.peer_left:
                raise self._left()

    @property
    def peer_left(self) -> bool:
        """True when the peer has closed its end or its process has ended; it may have left records."""
        poller = select.poll()
        for fd, events in self.end_fds.items():
            poller.register(fd, events)  # the events have poll's numbers
        return bool(poller.poll(0))

    def _left(self) -> PeerDied:
        peer = self._parts.peer
        how = "ended" if peer.pidfd >= 0 and not peer.alive else "closed the connection"
        return PeerDied(f"{self.peer} {how}", backend="shm", hint="connect again once it is back")

    def interrupt(self) -> None:
        """Make the present `wait` of another thread, or the next one, return."""
        self._interrupted = True
        with contextlib.suppress(ClosedError), self._guard:
            self._interrupts.notify()

    def fileno(self) -> int:
        """Return a descriptor that turns readable as `arm` asks; the same one until `close`. Raises ClosedError."""
        with self._guard:
            return self._watched().fileno()

    def expect(self) -> bool:
        """Have `arm` look for the record that comes next; see `Pipe.expect`."""
        pays = self._looks.begin()
        if pays and self._is_armed:
            self._disarm()
        return pays

    def look(self, longest_ns: int) -> None:
        """Look for the record that is expected, while that pays; see `Pipe.look`."""
        if not self._is_armed:
            native.spin((self.reader,), self._strategy, min(longest_ns, self._looks.most_ns))

    def _disarm(self) -> None:
        """Have the peer write without waking us: what it wrote is looked for."""
        with self._guard:
            self._interrupts.consume()
            self.take_notice()
        self.reader.disarm()
        self._is_armed = False

    def arm(self, expects: bool = False) -> bool:
        """Have `fileno()` turn readable with the next record; see `Pipe.arm`. Raises PeerDied, ClosedError."""
        if (position := self.reader.position) != self._seen:
            self._seen = position
            self._looks_unchecked = 0
            if self._looks.came():  # with an answer the loop's other work may send what is answered at once
                if self._is_armed:
                    self._disarm()
                return True
        if expects and self._looks.go_on():
            if self._is_armed:
                self._disarm()
            self._looks_unchecked = (self._looks_unchecked + 1) % _LOOKS_PER_CHECK
            if self._looks_unchecked or not self.peer_left:
                return True
        with self._guard:
            self._interrupts.consume()
            self.take_notice()
            self._is_armed = True
            if self.reader.arm():
                return True
            if self.peer_left and not self.reader.ready():
                raise self._left()
            return self.reader.ready()

    def _end_wait(self) -> None:
        self._tell_closed()  # first: what watches the socket would wake for our own end of it
        if self._guard.is_shared:
            self._interrupts.notify()
        with contextlib.suppress(OSError):  # the peer may have closed it before
            self._parts.connection.shutdown(socket.SHUT_RDWR)

    def _tell_closed(self) -> None:
        on_close = self.on_close
        if on_close is not None and not self._guard.forked:
            on_close(self)
        self.on_close = None  # last, as in `UsageGuard`

    def _let_go(self) -> None:
        self._tell_closed()
        if self._epoll is not None:
            self._epoll.close()
        self._parts.close()
        super()._let_go()
