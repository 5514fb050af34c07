"""Serves the calls of all clients of a listener: `ServerLoop`, and `ServerThread` that runs one.

A client that breaks the protocol, dies or leaves is forgotten; the others notice nothing. A client that does not read
its answers is throttled until it does. One thread at a time serves or polls.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable
from operator import attrgetter

from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.rpc.deadline_timer import DeadlineTimer
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.workers.adaptive_executor import AdaptiveExecutor, CountedPool
from lucky_transport.rpc.workers.guarded_reader import GuardedReader, ReaderReplaced
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.poller import Poller, PollResult
from lucky_transport.shm.timing import DRAIN_SLICE_NS, LOOP_SLICE_NS

_log = logging.getLogger("lucky_transport")
_numbers = itertools.count(1)
_OPEN_CALLS = attrgetter("open_calls")


class ServerLoop:
    """Feeds the calls of every client of `listener`, which belongs to the loop from now on.

    make_calls(pipe, caller): returns what answers a new client's calls; `caller` is its name, unique in this process.
    on_leave(caller): a client has gone; not called for clients that are there when the loop closes.
    """

    def __init__(
        self,
        listener: Listener,
        make_calls: Callable[[MemfdPipe, str], ServerCalls],
        on_leave: Callable[[str], None] = lambda caller: None,
    ) -> None:
        self._listener = listener
        self._make_calls = make_calls
        self._on_leave = on_leave
        self._pipes = Poller(listener)
        self._calls: dict[MemfdPipe, ServerCalls] = {}

    def describe(self, description: ServerDescription) -> None:
        """Say what listens here: see `Listener.describe`."""
        self._listener.describe(description)

    @property
    def open_calls(self) -> int:
        """Calls that are not answered yet, of all clients."""
        return sum(map(_OPEN_CALLS, tuple(self._calls.values())))

    def serve(self, timeout_ns: int) -> None:
        """Wait until something comes, and handle it. Raises ClosedError."""
        self._handle(self._pipes.wait(timeout_ns, oversubscribed=self._is_answering()))

    def expect(self) -> bool:
        """Say that a call was answered; True where the next one may come sooner than a sleeper wakes: `look` then."""
        return not self._is_answering() and self._pipes.expect()

    def _is_answering(self) -> bool:
        return any(map(_OPEN_CALLS, tuple(self._calls.values())))

    def look(self, longest_ns: int = 0) -> bool:
        """Handle what there is now, or comes while one may look for it; True when there was a record, or may be soon:
        look again.

        While calls are answered nobody looks on: handlers' threads want the core. Raises ClosedError.
        """
        found = self._pipes.look(expects=not self._is_answering(), longest_ns=longest_ns)
        self._handle(found)
        return bool(found.ready) or self._pipes.looking

    def fileno(self) -> int:
        """Return the descriptor that an event loop watches for `look`."""
        return self._pipes.fileno()

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `look` has to be called all the same; None when it need not."""
        return self._pipes.patience_ns

    def interrupt(self) -> None:
        """Make the present `serve` of another thread, or the next one, return at once."""
        self._pipes.interrupt()

    def stop_listening(self) -> None:
        """Accept no further client; those that are connected stay."""
        self._listener.close()

    def close(self, reason: TransportError) -> None:
        """End every call with `reason`, tell all clients, and close their pipes and the listener; idempotent."""
        while self._calls:
            self._calls.popitem()[1].shut_down(reason)
        self._pipes.close()

    def _handle(self, found: PollResult) -> None:
        for pipe in found.opened:
            self._calls[pipe] = self._make_calls(pipe, f"{pipe.peer} ({next(_numbers)})")
        for pipe in found.ready:
            self._feed(pipe)
        for pipe in found.closed:
            self._forget(pipe, PeerDied(f"{pipe.peer} is gone", backend="shm"))

    def _feed(self, pipe: MemfdPipe) -> None:
        calls = self._calls.get(pipe)
        if calls is None:
            return
        try:
            if not calls.feed():
                self._pipes.throttle(pipe)
        except TransportError as error:
            _log.warning("%s: %s; it is dropped", pipe.peer, error)
            self._forget(pipe, error)

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
        self._loop = loop
        self._close_message = close_message
        self._on_end = on_end
        self._end_at = math.inf
        self._name = name
        self._reading = GuardedReader(name, self._run)
        self.executor = None if slots is None else AdaptiveExecutor(slots, self._reading)

    def describe(self, description: ServerDescription) -> None:
        """Say what listens here: see `Listener.describe`."""
        self._loop.describe(description)

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
        if not self._reading.has_started:
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
        self._loop.serve(self.deadline_timer.timeout_ns(most_ns))
        self.deadline_timer.expire()
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
