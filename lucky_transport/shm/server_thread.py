"""The thread that runs a server loop; fast handlers run on it, where it has an executor for them.

Rule 1: it ends in two steps: from `stop` on nobody is let in, and when no call is under way any more, or the grace is
        over, every client is told that it ends here.
Rule 2: a bug of ours ends this thread and its clients' calls, not the process.
Rule 3: when a handler turns out slow, another thread serves on (`lucky_transport.rpc.adaptive_executor`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from lucky_transport.errors import ClosedError
from lucky_transport.rpc.adaptive_executor import AdaptiveExecutor, CountedPool
from lucky_transport.rpc.deadline_timer import DeadlineTimer
from lucky_transport.rpc.guarded_reader import GuardedReader, ReaderReplaced
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.shm.listener import Listener
from lucky_transport.shm.memfd_pipe import MemfdPipe
from lucky_transport.shm.server_loop import ServerLoop

__all__ = ["ServerThread", "serve_listener"]

_log = logging.getLogger("lucky_transport")
_SLICE_NS = 1_000_000_000
#: While calls are let come to their end, they are counted this often.
_LAST_SLICE_NS = 5_000_000


class ServerThread:
    """Serves `reception` from `start` on. deadline_timer: deadlines that this thread keeps. executor: runs
    handlers here or on the threads of `slots`; None without any.

    farewell: what clients are told at the end. on_end: called once everything has ended, on this thread.
    """

    def __init__(
        self,
        reception: ServerLoop,
        name: str,
        *,
        farewell: str,
        slots: CountedPool | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.deadline_timer = DeadlineTimer(reception.interrupt)
        self._reception = reception
        self._farewell = farewell
        self._on_end = on_end
        self._end_at = math.inf
        self._name = name
        self._reading = GuardedReader(name, self._run)
        self.executor = None if slots is None else AdaptiveExecutor(slots, self._reading)

    def start(self) -> None:
        """Begin to serve; once."""
        self._reading.start()

    def stop(self, grace_s: float) -> None:
        """Let nobody in any more, and end when no call is under way, `grace_s` from now at the latest.

        Returns at once; asked again it can only become shorter. What was never started ends here and now.
        """
        self._end_at = min(self._end_at, time.monotonic() + grace_s)
        if not self._reading.has_started:
            self._end()
        else:
            self._reception.interrupt()

    def close(self, patience_s: float = 1.0) -> None:
        """End now; a handler that keeps this thread for longer than `patience_s` is left behind. Idempotent."""
        self.stop(0.0)
        self._reading.close(patience_s)
        self._end()

    def _run(self) -> None:
        try:
            while math.isinf(self._end_at):
                self._serve(_SLICE_NS)
            self._reception.stop_listening()
            while self._reception.open_calls and time.monotonic() < self._end_at:
                self._serve(_LAST_SLICE_NS)
        except ReaderReplaced:
            raise
        except ClosedError as error:  # `close` lost its patience
            _log.debug("the %s: %s", self._name, error)
        except Exception:
            _log.exception("the %s broke; its clients get no answers any more", self._name)
        self._end()
        self._on_end()

    def _serve(self, most_ns: int) -> None:
        self._reception.serve(self.deadline_timer.timeout_ns(most_ns))
        self.deadline_timer.expire()
        if self.executor is not None:
            self.executor.flush()

    def _end(self) -> None:
        self._reception.close(ClosedError(self._farewell, backend="shm"))


def serve_listener(
    name: str,
    make_calls: Callable[..., ServerCalls],
    on_leave: Callable[[str], None],
    *,
    slots: CountedPool,
    strategy: int,
    native: bool,
) -> ServerThread:
    """Serve the clients that connect to `name` until the result is closed; raises as `Listener` does.

    make_calls(pipe, caller=, executor=): returns the calls of a new client, whose handlers `executor` runs. on_leave:
    see `ServerLoop`.
    """

    def calls_of(pipe: MemfdPipe, caller: str) -> ServerCalls:
        return make_calls(pipe, caller=caller, executor=thread.executor)

    loop = ServerLoop(Listener(name, strategy=strategy, native=native), calls_of, on_leave)
    thread = ServerThread(loop, f"shm commands {name}", farewell="the engine is closing", slots=slots)
    thread.start()
    return thread
