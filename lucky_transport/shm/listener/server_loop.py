"""Serves the calls of all clients of a listener: `ServerLoop`, and `ServerThread` that runs one.

A client that breaks the protocol, dies or leaves is forgotten; the others notice nothing. A client that does not read
its answers is throttled until it does. One thread at a time serves or polls.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable
from operator import attrgetter

from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout, TransportError
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.rpc.workers.adaptive_executor import AdaptiveExecutor, CountedPool
from lucky_transport.rpc.workers.guarded_reader import GuardedReader, ReaderReplaced
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.poller import Poller, PollResult
from lucky_transport.shm.timing import DRAIN_SLICE_NS, LOOP_SLICE_NS

_log = logging.getLogger("lucky_transport")
_numbers = itertools.count(1)
_OPEN_CALLS = attrgetter("open_calls")
NEVER_NS = 1 << 63


class DeadlineTimer:
    """Ends calls at their deadline although their handler waits for something else.

    A caller's own clock ends its call, and its cancel arrives here; this is for a caller that hangs. The thread that
    reads ends its wait at the next deadline, so that no call needs a timer or a thread. Most calls are answered long
    before anything depends on theirs.

    wake: called when `timeout_ns` has become shorter. next_ns: when that is over; NEVER_NS while nothing is watched.
    One thread calls `expire` whenever `timeout_ns` is over; any thread may call `watch`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._at_ns: dict[ServerCall, int] = {}
        self.next_ns = NEVER_NS

    def __len__(self) -> int:
        """Return how many calls are watched."""
        return len(self._at_ns)

    def watch(self, call: ServerCall) -> None:
        """End the call at its deadline, if it has one."""
        if call.deadline is None:
            return
        at_ns = call.deadline.at_ns
        with self._lock:
            self._at_ns[call] = at_ns
            is_next = at_ns < self.next_ns
            if is_next:
                self.next_ns = at_ns
        call.call.on_end(lambda: self._forget(call))
        if is_next:
            self._wake()

    def _forget(self, call: ServerCall) -> None:
        with self._lock:
            self._at_ns.pop(call, None)

    def timeout_ns(self, most: int) -> int:
        """Return the nanoseconds until `expire` has something to do, `most` at most."""
        return max(0, min(most, self.next_ns - monotonic_ns()))

    def expire(self) -> None:
        """End the calls whose deadline has passed; nothing is sent to their callers, whose own clocks end them."""
        now = monotonic_ns()
        if now < self.next_ns:
            return
        with self._lock:
            due = [call for call, at_ns in self._at_ns.items() if at_ns <= now]
            self.next_ns = min((at_ns for at_ns in self._at_ns.values() if at_ns > now), default=NEVER_NS)
        for call in due:
            call.lose(PeerTimeout(f"{call.name}: its caller waited until its deadline and no longer"))


class ServerLoop:
    """Feeds the calls of every client of `listener`, which belongs to the loop from now on.

    make_calls(pipe, caller=): returns what answers a new client's calls; `caller` is its name, unique in this process.
    on_leave(caller): a client has gone; not called for clients that are there when the loop closes.

    describe: see `Listener.describe`. stop_listening: accept no further client; those that are connected stay.
    fileno: the descriptor that an event loop watches for `look`. interrupt: make the present `serve` of another thread,
    or the next one, return at once.
    """

    def __init__(
        self,
        listener: Listener,
        make_calls: Callable[..., ServerCalls],
        on_leave: Callable[[str], None] = lambda caller: None,
    ) -> None:
        self.describe, self.stop_listening = listener.describe, listener.close
        self._make_calls = make_calls
        self._on_leave = on_leave
        self._pipes = Poller(listener)
        self.fileno, self.interrupt = self._pipes.fileno, self._pipes.interrupt
        self._calls: dict[MemfdPipe, ServerCalls] = {}

    @property
    def open_calls(self) -> int:
        """Calls that are not answered yet, of all clients."""
        return sum(map(len, map(_OPEN_CALLS, tuple(self._calls.values()))))

    def serve(self, timeout_ns: int) -> None:
        """Wait until something comes, and handle it. Raises ClosedError."""
        self._handle(self._pipes.wait(timeout_ns, oversubscribed=bool(self.open_calls)))

    def expect(self) -> bool:
        """Say that a call was answered; True where the next one may come sooner than a sleeper wakes: `look` then."""
        return not self.open_calls and self._pipes.expect()

    def look(self, longest_ns: int = 0) -> bool:
        """Handle what there is now, or comes while one may look for it; True when there was a record, or may be soon:
        look again.

        While calls are answered nobody looks on: handlers' threads want the core. Raises ClosedError.
        """
        found = self._pipes.look(expects=not self.open_calls, longest_ns=longest_ns)
        self._handle(found)
        return bool(found.ready) or self._pipes.looking

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `look` has to be called all the same; None when it need not."""
        return self._pipes.patience_ns

    def close(self, reason: TransportError) -> None:
        """End every call with `reason`, tell all clients, and close their pipes and the listener; idempotent."""
        while self._calls:
            self._calls.popitem()[1].shut_down(reason)
        self._pipes.close()

    def _handle(self, found: PollResult) -> None:
        for pipe in found.opened:
            self._calls[pipe] = self._make_calls(pipe, caller=f"{pipe.peer} ({next(_numbers)})")
        for pipe in found.ready:
            calls = self._calls.get(pipe)
            try:
                if calls is not None and not calls.feed():
                    self._pipes.throttle(pipe)
            except TransportError as error:
                _log.warning("%s: %s; it is dropped", pipe.peer, error)
                self._forget(pipe, error)
        for pipe in found.closed:
            self._forget(pipe, PeerDied(f"{pipe.peer} is gone", backend="shm"))

    def _forget(self, pipe: MemfdPipe, error: TransportError) -> None:
        calls = self._calls.pop(pipe, None)
        if calls is not None:
            calls.close(error)
            run_unwaited(f"the end of {calls.peer}", self._on_leave, calls.peer)
        self._pipes.discard(pipe)


class ServerThread:
    """Serves `loop` from `start` on. deadline_timer: deadlines that this thread keeps. executor: runs
    handlers here or on the threads of `slots`; None without any.

    A handler that turns out slow keeps its thread, and another one serves on (`AdaptiveExecutor`).

    close_message: the error text that clients get at the end. on_end: called once everything has ended, on this thread.
    describe: see `Listener.describe`.
    """

    def __init__(
        self,
        loop: ServerLoop,
        name: str,
        *,
        close_message: str,
        slots: CountedPool | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.deadline_timer = DeadlineTimer(loop.interrupt)
        self._loop, self.describe = loop, loop.describe
        self._close_message = close_message
        self._on_end = on_end
        self._end_at = math.inf
        self._name = name
        self._reading = GuardedReader(name, self._run)
        self.executor = None if slots is None else AdaptiveExecutor(slots, self._reading)

    def start(self) -> None:
        """Begin to serve; once. Where no thread can be started it ends, and the error is raised."""
        try:
            self._reading.start()
        except BaseException:  # a signal handler's: the thread may run
            self.close()
            raise

    def stop(self, grace_s: float) -> None:
        """Accept no further client, and end when no call is under way, `grace_s` from now at the latest.

        Returns at once; asked again it can only become shorter. What was never started ends here and now.
        """
        self._end_at = min(self._end_at, time.monotonic() + grace_s)
        if not self._reading.readers:
            self._end()
        else:
            self._loop.interrupt()

    def close(self, patience_s: float = 1.0) -> None:
        """End now; a handler that keeps this thread for longer than `patience_s` is left behind. Idempotent."""
        self.stop(0.0)
        self._reading.close(patience_s)
        self._end()

    def _run(self) -> None:
        try:
            while math.isinf(self._end_at):
                self._serve(LOOP_SLICE_NS)
            self._loop.stop_listening()
            while self._loop.open_calls and time.monotonic() < self._end_at:
                self._serve(DRAIN_SLICE_NS)
        except ReaderReplaced:
            raise
        except ClosedError as error:  # `close` waited long enough
            _log.debug("the %s: %s", self._name, error)
        except BaseException:
            _log.exception("the %s broke; its clients get no answers any more", self._name)
        self._end()
        self._on_end()

    def _serve(self, most_ns: int) -> None:
        timer = self.deadline_timer
        self._loop.serve(most_ns if timer.next_ns == NEVER_NS else timer.timeout_ns(most_ns))
        if timer.next_ns != NEVER_NS:
            timer.expire()
        if self.executor is not None:
            self.executor.flush()

    def _end(self) -> None:
        self._loop.close(ClosedError(self._close_message, backend="shm"))


def serve_listener(
    name: str,
    make_calls: Callable[..., ServerCalls],
    on_leave: Callable[[str], None],
    *,
    slots: CountedPool,
    strategy: int,
) -> ServerThread:
    """Serve the clients that connect to `name` until the result is closed; raises what `Listener` raises.

    make_calls(pipe, caller=, executor=): returns the calls of a new client, whose handlers `executor` runs. on_leave:
    see `ServerLoop`.
    """

    def calls_of(pipe: MemfdPipe, caller: str) -> ServerCalls:
        return make_calls(pipe, caller=caller, executor=thread.executor)

    loop = ServerLoop(Listener(name, strategy=strategy), calls_of, on_leave)
    thread = ServerThread(loop, f"shm commands {name}", close_message="the engine is closing", slots=slots)
    thread.start()
    return thread
