"""One call of a typed method, as its handler sees it: the caller, the deadline, and whether the call is over.

    def stream_telemetry(request, call):          # a server stream: see `lucky_transport.engine.StreamHandler`
        for _ in call.ticks(request.target_fps or 30):
            with call.between_steps():
                frame = TelemetryFrame(...)       # the world stands still here
            yield frame

A stream of images draws into `call.image_buffer(nbytes)`, so that a client in shared memory gets them without a copy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from lucky_transport.deadline import Deadline
from lucky_transport.errors import LocalProtocolError, PeerTimeout
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.messages.method import Method
from lucky_transport.uninterrupted import Latch

__all__ = ["Call", "Metadata", "check_request", "check_stream", "check_unary", "deadline_error"]


#: (key, value) pairs; keys may repeat and their order counts.
Metadata = tuple[tuple[str, str | bytes], ...]


class Call:
    """A call, which ends once: by its handler, its caller (cancel, death), its deadline or the server's end.

    `caller` names the client, the same for all calls of one connection.

    metadata: (key, value) pairs as they came; keys may repeat. dropped: items that a stream skipped so far.
    held_s: seconds for which a limit of the stream held it back; `ticks` does not count them. knows_end: a handler has
    asked whether the call is over, and it is. asked_late: what a stream gives next was asked for after its deadline.

    image_buffer(nbytes): returns writable memory for an image of the stream's next item: set `ImageFrame.data` to it,
    itself. Over shared memory it is the client's own view, with the bytes it held before; elsewhere it is plain memory.
    After that item it belongs to the client: ask for another. Raises NoSpace.
    """

    # Attributes of the class until they are set: most calls are answered at once and need none of them.
    dropped: int = 0
    held_s: float = 0.0
    knows_end: bool = False
    asked_late: bool = False
    _ended: bool = False
    _over: Latch | None = None
    _callbacks: tuple[Callable[[], None], ...] = ()

    def __init__(
        self,
        caller: str,
        deadline: Deadline | None = None,
        metadata: Metadata = (),
        *,
        between_steps: Callable[[], AbstractContextManager[object]] = nullcontext,
        image_buffer: Callable[[int], memoryview] | None = None,
    ) -> None:
        self.caller = caller
        self.deadline = deadline
        self.metadata = metadata
        self.between_steps = between_steps
        self.image_buffer = image_buffer or _plain_memory
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """True once the call has ended, was cancelled, or is past its deadline."""
        self.knows_end = self._ended or (self.deadline is not None and self.deadline.expired)
        return self.knows_end

    def end(self) -> None:
        """Mark the call as over, whatever the reason, and run what `on_end` was given; idempotent, from any thread."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if self._over is not None:
                self._over.set()
            callbacks = self._callbacks
            self._callbacks = ()
            self.image_buffer = _plain_memory  # the other one holds the stream's memory, and what made this call
        for callback in callbacks:
            run_unwaited("a callback at the end of a call", callback)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the call is over, at once if it is already; it must not block.

        What it raises goes to the log.
        """
        with self._lock:
            if not self._ended:
                self._callbacks += (callback,)
                return
        run_unwaited("a callback at the end of a call", callback)

    def wait(self, seconds: float) -> bool:
        """Sleep for that long; False at once when the call is over."""
        if self.deadline is not None:
            seconds = min(seconds, self.deadline.remaining_s)
        with self._lock:
            if self._ended:
                return False
            if self._over is None:
                self._over = Latch()
        return not self._over.wait(max(seconds, 0.0)) and not self.is_over

    def ticks(self, hz: float) -> Iterator[int]:
        """Yield the number of each tick, `hz` a second by the wall clock and the first at once, until the call is over.

        Ticks that passed before the next one was asked for are left out and counted in `dropped`.
        """
        period = 1.0 / hz
        start, tick = self._clock(), 0
        while not self.is_over:
            yield tick
            now = (self._clock() - start) / period
            missed = int(now) - tick
            if missed > 0:
                self.dropped += missed - 1
                tick += missed
                continue
            tick += 1
            if not self.wait(start + tick * period - self._clock()):
                return

    def _clock(self) -> float:
        return time.monotonic() - self.held_s


def _plain_memory(nbytes: int) -> memoryview:
    return memoryview(bytearray(nbytes))


def check_request(method: Method, request: object) -> None:
    """Raise TypeError unless `request` is the message that `method` takes."""
    expected = method.request.__name__
    if not isinstance(request, method.request):
        raise TypeError(f"{expected}: got {type(request).__name__}, expected {expected}")


def deadline_error(name: str, timeout_s: float, backend: str) -> PeerTimeout:
    """Return the error of a call or stream of the method `name` that reached its deadline."""
    return PeerTimeout(
        f"{name} did not end within {timeout_s:g} s",
        backend=backend,
        hint="raise its timeout (for calls also LUCKY_COMMAND_TIMEOUT_S)",
    )


def check_unary(method: Method) -> None:
    """Raise LocalProtocolError when `method` has more than one response."""
    if method.stream is not None:
        raise LocalProtocolError(f"{method.name} is a stream: it has no single response", hint="use stream()")


def check_stream(method: Method) -> None:
    """Raise LocalProtocolError when `method` is no server stream."""
    if method.stream is None:
        raise LocalProtocolError(f"{method.name} is no stream: it has one response", hint="use call()")
