"""Waits for all clients of a listener at once.

    with Poller(listener) as pipes:
        round = pipes.wait(timeout_ns)      round.ready · round.opened · round.closed
        round = pipes.look()                for event loops: when its descriptor is readable or `patience_ns` is over

After an event it polls the rings for a moment without the GIL, sets every park word, polls once more and sleeps in one
epoll over the sockets and ends of clients and the listener. One thread waits or looks; `interrupt`, `throttle`,
`discard` and `close` may be called from any.
"""

from __future__ import annotations

import contextlib
import select
import time
from dataclasses import dataclass, field

from lucky_transport import native
from lucky_transport.closing import Closing
from lucky_transport.errors import ClosedError
from lucky_transport.fork import on_child
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.timing import LISTENER_POLL_NS, LONGEST_SLEEP_NS, THROTTLE_NS
from lucky_transport.shm.usage_guard import UsageGuard
from lucky_transport.shm.wait import LoopLooks, spin


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
        self._pipes: dict[MemfdPipe, tuple[int, ...]] = {}
        self._by_end: dict[int, MemfdPipe] = {}
        self._leaving: dict[MemfdPipe, bool] = {}  # True: whatever it still holds
        self._held: dict[MemfdPipe, int] = {}
        self._readers: tuple[native.RingReader, ...] = ()
        self._skip_spin = False
        self._budget = native.SpinBudget(listener.strategy)
        self._interrupted = False
        self._look_at = 0
        self._looks = LoopLooks(listener.strategy)
        self.looking = False
        on_child(self.close_after_fork)

    @property
    def pipes(self) -> tuple[MemfdPipe, ...]:
        """The pipes of the clients that are there."""
        return tuple(self._pipes)

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> PollResult:
        """Wait until a client wrote, came or left; see `PollResult`. Raises ClosedError.

        oversubscribed: as in `Pipe.wait`.
        """
        with self._guard:
            found = self._wait(timeout_ns, oversubscribed)
        if self._guard.closed:
            raise self._guard.error()
        return found

    def expect(self) -> bool:
        """Say that a record is expected; True where it may come sooner than a sleeper wakes: `look` then."""
        if self._looks.begin():
            self._look_on()
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
            longest_ns = min(longest_ns, self._looks.most_ns) if was_looking and expects else 0
            if spin(self._readers, self._listener.strategy, longest_ns) or not was_looking:
                if not was_looking or time.monotonic_ns() >= self._look_at:
                    self._sleep(0, found)
                    self._look_at = time.monotonic_ns() + LISTENER_POLL_NS
                self._collect(found)
            if not found.ready:
                if expects and self._looks.go_on():
                    self.looking = was_looking
                    self._look_on()
                elif any(reader.arm() for reader in self._readers):
                    self._collect(found)
            if found.ready:
                self._looks.came()
        if self._guard.closed:
            raise self._guard.error()
        return found

    def _look_on(self) -> None:
        """Have clients write without waking us: what they wrote is looked for."""
        if not self.looking:
            for reader in self._readers:
                reader.disarm()
        self.looking = True

    def fileno(self) -> int:
        """Return the descriptor that an event loop watches for `look`; the same one until `close`."""
        return self._epoll.fileno()

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `look` has to be called though the descriptor is not readable; None when it need not."""
        times = [max(0, min(self._held.values()) - time.monotonic_ns())] if self._held else []
        if (patience := self._listener.patience_ns) is not None:
            times.append(patience)
        return min(times, default=None)

    def _wait(self, timeout_ns: int, oversubscribed: bool) -> PollResult:
        found = PollResult()
        start = now = time.monotonic_ns()
        until_ns = start + timeout_ns
        while True:
            spun = not self._skip_spin and self._spin(max(0, until_ns - now), oversubscribed)
            if not spun or now >= self._look_at:
                self._sleep(0 if spun else until_ns - now, found)
                self._look_at = time.monotonic_ns() + LISTENER_POLL_NS
            self._collect(found)
            now = time.monotonic_ns()
            if found:
                # A client that came maps its rings first; one that wrote its first record may leave with the answer.
                self._skip_spin = not any(pipe.reader.position for pipe in found.ready)
                self._budget.learn(now - start)
                return found
            if self._interrupted or self._guard.closed or now >= until_ns:
                self._skip_spin = not self._interrupted
                self._interrupted = False
                return found
            self._skip_spin = True

    def _spin(self, left_ns: int, oversubscribed: bool) -> bool:
        listener = self._listener
        longest_ns = min(left_ns, self._budget.ns)
        return spin(self._readers, listener.strategy, longest_ns, oversubscribed=oversubscribed)

    def _sleep(self, timeout_ns: int, found: PollResult) -> None:
        """Sleep in the epoll, unless something is in a ring, and see to whatever is no record."""
        readers = self._readers
        if timeout_ns > 0 and not self._interrupted and not self._leaving:  # first report those that left
            patience = self.patience_ns
            sleep_ns = min(LONGEST_SLEEP_NS, timeout_ns, LONGEST_SLEEP_NS if patience is None else patience)
        else:
            sleep_ns = 0
        try:
            written = [reader.arm() for reader in readers] if sleep_ns else []
            events = self._epoll.poll(0.0 if any(written) else sleep_ns / 1e9)
        finally:
            for reader in readers if sleep_ns else ():
                reader.disarm()
        woken = {fd for fd, _ in events}
        if self._alarm.fd in woken:
            self._alarm.consume()
        if self._listener_fd in woken or self._listener.patience_ns == 0:
            self._let_in(found)
        for event in events:
            if (pipe := self._by_end.get(event[0])) is not None and pipe.has_left((event,)):
                self._leaving.setdefault(pipe, False)
                self._unwatch(pipe)  # or its end would be found again and again

    def _let_in(self, found: PollResult) -> None:
        with contextlib.suppress(ClosedError):
            for pipe in self._listener.advance():
                ends = pipe.end_fds
                self._pipes[pipe] = tuple(ends)
                for fd, events in ends.items():
                    self._epoll.register(fd, events | select.EPOLLIN)
                    self._by_end[fd] = pipe
                pipe.on_close = self._closed_elsewhere
                found.opened.append(pipe)
        if found.opened:
            self._choose_readers()

    def _closed_elsewhere(self, pipe: MemfdPipe) -> None:
        """Any thread closes the pipe: have the present `wait`, or the next one, report it."""
        with contextlib.suppress(ClosedError), self._guard:  # another thread may close the poller meanwhile
            self._unwatch(pipe)
            if pipe in self._pipes:
                self._leaving[pipe] = True
                self._alarm.notify()

    def _unwatch(self, pipe: MemfdPipe) -> None:
        """Remove the pipe from the epoll; closing does not, since the client holds the same open files."""
        for fd in self._pipes.get(pipe, ()):
            self._by_end.pop(fd, None)
            with contextlib.suppress(OSError):  # another thread was quicker
                self._epoll.unregister(fd)

    def _choose_readers(self) -> None:
        self._readers = tuple(pipe.reader for pipe in tuple(self._pipes) if pipe not in self._held)

    def _collect(self, found: PollResult) -> None:
        """Note the pipes that have records to pop, and those whose client has left and that have none."""
        if self._held:
            now = time.monotonic_ns()
            for pipe, until in list(self._held.items()):
                if now >= until:
                    self._held.pop(pipe, None)
            self._choose_readers()
        for pipe, at_once in list(self._leaving.items()):
            if at_once or not pipe.reader.ready():
                self.discard(pipe)
                found.closed.append(pipe)
        found.ready = [pipe for pipe in tuple(self._pipes) if pipe.reader.ready() and pipe not in self._held]

    def throttle(self, pipe: MemfdPipe) -> None:
        """Leave what the pipe holds unread for now; it is offered again within a millisecond or so."""
        if pipe in self._pipes:
            self._held[pipe] = time.monotonic_ns() + THROTTLE_NS
            if pipe in self._leaving:
                self._leaving[pipe] = True
            self._choose_readers()

    def discard(self, pipe: MemfdPipe) -> None:
        """Close the pipe and forget it, without reporting it; no effect for one that is not here."""
        if pipe not in self._pipes:
            return
        if pipe.on_close is not None:
            pipe.on_close = None
            with contextlib.suppress(ClosedError), self._guard:
                self._unwatch(pipe)
        pipe.close()
        self._pipes.pop(pipe, None)
        self._leaving.pop(pipe, None)
        self._held.pop(pipe, None)
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
            self._pipes.clear()
            self._epoll.close()
            self._alarm.close()

    def _let_go(self) -> None:
        self._listener.close()
        for pipe in tuple(self._pipes):
            self.discard(pipe)
        self._epoll.close()
        self._alarm.close()
