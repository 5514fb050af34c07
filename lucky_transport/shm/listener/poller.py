"""Waits for all clients of a listener at once.

    with Poller(listener) as pipes:
        round = pipes.wait(timeout_ns)      round.ready · round.opened · round.closed
        round = pipes.look()                for event loops: when its descriptor is readable or `patience_ns` is over

Both ask the rings, then the epoll, then each client; `wait` in rounds, until one finds something. The README of
`lucky_transport.shm` says what arm, disarm, notice and expect mean.

    asks                              in a round of `wait`                   in a `look`
    the rings, without the GIL:       if `_looks_first`, for as long         if it was `looking`, for as long
      native.spin                       as `_spin_budget` says                 as `_look_budget` says
    the epoll over listener, alarm    the rings had nothing: it sleeps       it was not `looking`
      and clients: _ask_epoll         they had something: only when due      the rings had something: only when due
    each client: _collect             always                                 after either of these
    where there was nothing           goes on until its timeout              disarms and is `looking` while that pays;
                                                                               else arms, and its descriptor tells

    state           set                                 asked by               reset, and why
    _looks_first    a client that had sent records      the next round of      a round found nothing: it sleeps; or only
                    sent one; an interrupt cut the      `wait`                 new clients: these map their rings first,
                    look short                                                 and may leave with the first answer
    _notified       notices have woken `wait`           the next ask of the    by that: `wait` answers before, a system
                                                        epoll takes them       call sooner; `look` takes them at once
    _epoll_due_ns   by each ask of the epoll            who found records      never: however busy the rings are, new
                                                        in the rings           clients and ends are seen to
    _interrupted    by `interrupt`                      `wait`: it does not    by the `wait` that ends for it, and by
                                                        sleep, and ends        `look`, which does not sleep
    looking         by `expect` and `look`, which       `look` and its caller  by `look` as it begins: if a handler
                    have disarmed the readers                                  interrupts it, the next asks the epoll

One thread waits or looks; `interrupt`, `throttle`, `discard` and `close` may be called from any.
"""

from __future__ import annotations

import contextlib
import select
from dataclasses import dataclass, field
from operator import attrgetter, methodcaller

from lucky_transport import native
from lucky_transport.closing import Closing
from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import ClosedError
from lucky_transport.fork import on_child
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.timing import LISTENER_POLL_NS, LONGEST_SLEEP_NS, THROTTLE_NS
from lucky_transport.shm.usage_guard import UsageGuard
from lucky_transport.shm.wait import LoopLooks

#: Without a Python function for each reader or pipe. `any([*map(_ARM, readers)])` arms all of them: without the list it
#: would end at the first that has something.
_ARM, _POSITION, _HAS_LEFT = methodcaller("arm"), attrgetter("reader.position"), attrgetter("has_left")


@dataclass(slots=True)
class PollResult:
    """What one wait or look found; all empty at the timeout and after `interrupt`.

    ready: pipes with records, to be read empty. opened: new pipes. closed: pipes whose client is gone, closed by now.
    """

    ready: list[MemfdPipe] = field(default_factory=list[MemfdPipe])
    opened: list[MemfdPipe] = field(default_factory=list[MemfdPipe])
    closed: list[MemfdPipe] = field(default_factory=list[MemfdPipe])

    def __bool__(self) -> bool:
        return bool(self.ready or self.opened or self.closed)


@dataclass(slots=True, eq=False)
class _Client:
    """A pipe that waits for its client's records, and what has become of it. `_collect` asks for all three flags.

        event                               from then on
        the epoll tells one of its `ends`   has_left: closed and reported once its ring is empty
        any thread has closed the pipe      has_left, is_over: closed and reported in the next round
        `throttle`                          held_until_ns, until then: not offered; is_over if it has_left

    ends: `MemfdPipe.end_fds`, all in the epoll.
    """

    pipe: MemfdPipe
    ends: dict[int, int]
    has_left: bool = False
    is_over: bool = False
    held_until_ns: int = 0


class Poller(Closing):
    """All pipes of one listener, which belongs to it; `close` closes them and the listener."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._guard = UsageGuard(f"the set of pipes at {listener.path}")
        with contextlib.ExitStack() as undo:
            undo.callback(listener.close)
            self._alarm = undo.enter_context(EventFd())
            self._epoll = undo.enter_context(select.epoll())
            self._epoll.register(self._alarm.fd, select.EPOLLIN)
            self._listener_fd = listener.fileno()
            self._epoll.register(self._listener_fd, select.EPOLLIN)
            undo.pop_all()
        self._clients: dict[MemfdPipe, _Client] = {}
        self._by_end: dict[int, _Client] = {}
        self._readers: tuple[native.RingReader, ...] = ()  # of the clients that are not held
        self._spin_budget = native.SpinBudget(listener.strategy)
        self._look_budget = LoopLooks(listener.strategy)
        self._looks_first = True
        self._notified: list[MemfdPipe] = []
        self._epoll_due_ns = 0
        self._interrupted = False
        self.looking = False
        on_child(self.close_after_fork)

    @property
    def pipes(self) -> tuple[MemfdPipe, ...]:
        """The pipes of the clients that are there."""
        return tuple(self._clients)

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> PollResult:
        """Wait until a client wrote, came or left; see `PollResult`. Raises ClosedError.

        oversubscribed: as in `Pipe.wait`.
        """
        found = PollResult()
        start = now = monotonic_ns()
        until_ns = start + timeout_ns
        with self._guard:
            while True:
                longest_ns = max(1, min(until_ns - now, self._spin_budget.ns))  # 1: a caller on this CPU goes on first
                strategy = self._listener.strategy
                is_written = self._looks_first and native.spin(self._readers, strategy, longest_ns, oversubscribed)
                if not is_written or now >= self._epoll_due_ns:
                    self._see_to(self._ask_epoll(0 if is_written else until_ns - now), found)
                self._collect(found)
                now = monotonic_ns()
                if found.ready or found.opened or found.closed:
                    self._looks_first = any(map(_POSITION, found.ready))  # 0 before a client's first record is popped
                    self._spin_budget.learn(now - start)
                    break
                self._looks_first = self._interrupted
                if self._interrupted or self._guard.closed or now >= until_ns:
                    self._interrupted = False
                    break
        if self._guard.closed:
            raise self._guard.error()
        return found

    def expect(self) -> bool:
        """Say that a record is expected; True where it may come sooner than a sleeper wakes: `look` then."""
        if self._look_budget.begin():
            self._look_on(self.looking)
        return self.looking

    def look(self, *, expects: bool = True, longest_ns: int = 0) -> PollResult:
        """Return what there is now; never blocks, but for the time that it may look for what one `expects`. Raises
        ClosedError.

        Only when nothing is `ready`, and it is not `looking`, does `fileno()` turn readable with what comes next: look
        again until then. It goes on `looking` only where one `expects` something.
        """
        found = PollResult()
        with self._guard:
            self._interrupted = False
            was_looking, self.looking = self.looking, False
            longest_ns = min(longest_ns, self._look_budget.most_ns) if was_looking and expects else 0
            if native.spin(self._readers, self._listener.strategy, longest_ns) or not was_looking:
                if not was_looking or monotonic_ns() >= self._epoll_due_ns:
                    self._see_to(self._ask_epoll(0), found)
                    while self._notified:  # now, or the descriptor would stay readable
                        self._notified.pop().take_notice()
                self._collect(found)
            if not found.ready:
                if expects and self._look_budget.go_on():
                    self._look_on(was_looking)
                elif any([*map(_ARM, self._readers)]):
                    self._collect(found)
            if found.ready:
                self._look_budget.came()
        if self._guard.closed:
            raise self._guard.error()
        return found

    def _look_on(self, was_looking: bool) -> None:
        """Have clients write without a notice: what they wrote is looked for."""
        if not was_looking:
            for reader in self._readers:
                reader.disarm()
        self.looking = True

    def fileno(self) -> int:
        """Return the descriptor that an event loop watches for `look`; the same one until `close`."""
        return self._epoll.fileno()

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `look` has to be called though the descriptor is not readable: a client that is held is
        offered again, or the listener does not wait for a hello any longer. None when it need not.
        """
        now = monotonic_ns()
        times = [max(0, one.held_until_ns - now) for one in tuple(self._clients.values()) if one.held_until_ns]
        if (patience := self._listener.patience_ns) is not None:
            times.append(patience)
        return min(times, default=None)

    def _ask_epoll(self, longest_ns: int) -> list[tuple[int, int]]:
        """Return the epoll's events. Sleep until there are some or a record comes, for so long at most."""
        while self._notified:
            self._notified.pop().take_notice()
        patience_ns, sleep_ns = self.patience_ns, 0
        # What has left is reported before it sleeps.
        if longest_ns > 0 and not self._interrupted and not any(map(_HAS_LEFT, tuple(self._clients.values()))):
            sleep_ns = min(LONGEST_SLEEP_NS, longest_ns, LONGEST_SLEEP_NS if patience_ns is None else patience_ns)
        armed = self._readers if sleep_ns else ()
        try:  # one that has a record by now says so when it is armed
            events = self._epoll.poll(0.0 if any([*map(_ARM, armed)]) else sleep_ns / 1e9)
        finally:
            for reader in armed:
                reader.disarm()
        if patience_ns is not None and self._listener.patience_ns == 0:
            events.append((self._listener_fd, 0))  # its time is over, which its descriptor does not tell
        self._epoll_due_ns = monotonic_ns() + LISTENER_POLL_NS
        return events

    def _see_to(self, events: list[tuple[int, int]], found: PollResult) -> None:
        """Note who has left and whose notice is to be taken, and let new clients in."""
        has_come = False
        for fd, event in events:
            if (client := self._by_end.get(fd)) is not None:
                self._notified.append(client.pipe)
                if event & client.ends[fd]:
                    client.has_left = True
                    self._unwatch(client)  # or its end would be found again and again
            elif fd == self._listener_fd:
                has_come = True
            elif fd == self._alarm.fd:
                self._alarm.consume()
        if has_come:  # last: a new client may get the number of a descriptor that was closed meanwhile
            self._let_in(found)

    def _let_in(self, found: PollResult) -> None:
        with contextlib.suppress(ClosedError):
            for pipe in self._listener.advance():
                self._clients[pipe] = client = _Client(pipe, pipe.end_fds)
                for fd, events in client.ends.items():
                    self._epoll.register(fd, events | select.EPOLLIN)
                    self._by_end[fd] = client
                pipe.on_close = self._closed_elsewhere
                found.opened.append(pipe)
        if found.opened:
            self._choose_readers()

    def _closed_elsewhere(self, pipe: MemfdPipe) -> None:
        """Any thread closes the pipe: have the present `wait`, or the next one, report it."""
        with contextlib.suppress(ClosedError), self._guard:  # another thread may close the poller meanwhile
            if (client := self._clients.get(pipe)) is not None:
                self._unwatch(client)
                client.has_left = client.is_over = True
                self._alarm.notify()

    def _unwatch(self, client: _Client) -> None:
        """Remove its ends from the epoll; closing does not, since the client holds the same open files."""
        for fd in client.ends:
            self._by_end.pop(fd, None)
            with contextlib.suppress(OSError):  # another thread was quicker
                self._epoll.unregister(fd)

    def _choose_readers(self) -> None:
        self._readers = tuple(one.pipe.reader for one in tuple(self._clients.values()) if not one.held_until_ns)

    def _collect(self, found: PollResult) -> None:
        """Note the pipes that have records to pop, and close those whose client has left and that have none."""
        for pipe, client in tuple(self._clients.items()):
            if client.held_until_ns and monotonic_ns() >= client.held_until_ns:
                client.held_until_ns = 0
                self._choose_readers()
            is_ready = pipe.reader.ready()
            if client.is_over or (client.has_left and not is_ready):
                self.discard(pipe)
                found.closed.append(pipe)
            elif is_ready and not client.held_until_ns:
                found.ready.append(pipe)

    def throttle(self, pipe: MemfdPipe) -> None:
        """Leave what the pipe holds unread for now; it is offered again within a millisecond or so."""
        if (client := self._clients.get(pipe)) is not None:
            client.held_until_ns = monotonic_ns() + THROTTLE_NS
            if client.has_left:  # not assigned: another thread may set both meanwhile
                client.is_over = True
            self._choose_readers()

    def discard(self, pipe: MemfdPipe) -> None:
        """Close the pipe and forget it, without reporting it; no effect for one that is not here."""
        if (client := self._clients.get(pipe)) is None:
            return
        if pipe.on_close is not None:
            pipe.on_close = None
            with contextlib.suppress(ClosedError), self._guard:
                self._unwatch(client)
        pipe.close()
        self._clients.pop(pipe, None)
        self._choose_readers()

    def interrupt(self) -> None:
        """Make the present `wait` of another thread, or the next one, return at once."""
        self._interrupted = True
        with contextlib.suppress(ClosedError), self._guard:
            self._alarm.notify()

    def close(self) -> None:
        """Close the listener and every pipe, and end the wait. Idempotent."""
        with contextlib.suppress(ClosedError), self._guard:
            if self._guard.close(self._let_go):
                self._alarm.notify()

    def close_after_fork(self) -> None:
        """In a forked child: let go of the copies; pipes and listener do so themselves."""
        if self._guard.close_after_fork():
            self._clients.clear()
            self._epoll.close()
            self._alarm.close()

    def _let_go(self) -> None:
        self._listener.close()
        for pipe in tuple(self._clients):
            self.discard(pipe)
        self._epoll.close()
        self._alarm.close()
