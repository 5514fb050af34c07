"""The transport `recorded:`: another one, whose exchanges, calls and streams are written when they are over.

recorded:?to=shm%3A%2F%2Fdemo&file=run.jsonl.gz         what goes to shm://demo is recorded in that file
recorded:?to=shm%3A%2F%2Fdemo&file=run.jsonl&seed=7     and the header says which seed the engine was started with

What is refused before anything was sent (wrong arguments) is not written. A stream is one entry; of a long one the
first items are kept.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.api import open_transport
from lucky_transport.codec.flatbuffers import encode
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, PeerTimeout, TransportError
from lucky_transport.messages.images import owned
from lucky_transport.messages.methods import Effect, Method
from lucky_transport.spec.actions import on_host
from lucky_transport.transport import ForwardingTransport, Frame, Stream, Transport
from lucky_transport_migration.evidence.outcome import call_outcome, ending_of
from lucky_transport_migration.recording.entries import (
    ARRAYS,
    FLATBUFFERS,
    KEPT_BYTES,
    KEPT_ITEMS,
    Header,
    Step,
    call_entry,
)
from lucky_transport_migration.recording.recorder import Recorder, recorder_of


def recorded_endpoint(to: str, file: Path, seed: int | None = None) -> Endpoint:
    """Return the endpoint that leads to `to` and records in `file`."""
    options = (("to", to), ("file", str(file)), *(() if seed is None else (("seed", str(seed)),)))
    return Endpoint("recorded", "", options)


def open_recorded(endpoint: Endpoint, settings: Settings) -> RecordedTransport:
    """Return a transport to the endpoint's `to` that records in its `file`.

    Raises ConfigError for an endpoint without them and for a file that cannot be made, and what connecting raises.
    """
    to, file, seed = (endpoint.option(key) for key in ("to", "file", "seed"))
    if not to or not file:
        example = recorded_endpoint("shm://demo", Path("run.jsonl"))
        raise ConfigError(f"endpoint {endpoint} needs to= and file=", hint=f"write for instance {example}")
    if seed and not seed.isdecimal():
        raise ConfigError(f"endpoint {endpoint}: seed = {seed!r}", hint="write a whole number >= 0")
    inner = open_transport(to, replace(settings, record=""))
    try:
        spec = json.loads(inner.spec.to_json())
        header = Header(inner.name, to, inner.spec.engine, int(seed) if seed else None, spec)
        return RecordedTransport(inner, recorder_of(Path(file), header))
    except BaseException:
        inner.close()
        raise


class RecordedTransport(ForwardingTransport):
    """`inner`, recorded by `recorder`. Closing it closes that and completes the file."""

    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        super().__init__(inner)
        self.capabilities = replace(inner.capabilities, async_envs=False)  # a recording has whole steps
        self._recorder = recorder
        self._sent: tuple[bytes, bytes | None, int] | None = None  # actions, control and the moment

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        given, flags = np.array(on_host(actions)), None if control is None else np.array(control)
        began_ns = time.perf_counter_ns()
        self._inner.send(actions, control)
        sent = np.ascontiguousarray(given, self.spec.action.dtype).tobytes()
        self._sent = sent, None if flags is None else np.asarray(flags, np.uint8).tobytes(), began_ns

    def recv(self, deadline: Deadline | None = None) -> Frame:
        try:
            frame = self._inner.recv(deadline)
        except PeerTimeout:  # the exchange stays open, and comes again
            raise
        except Exception as error:
            self._exchanged(None, error)
            raise
        self._exchanged(frame, None)
        return frame

    def _exchanged(self, frame: Frame | None, error: Exception | None) -> None:
        sent, self._sent = self._sent, None
        if sent is not None and isinstance(error, TransportError | None):
            actions, control, began_ns = sent
            outcome = call_outcome(self.name, [], ending_of(error), time.perf_counter_ns() - began_ns)
            rest: dict[str, Any] = {"code": outcome.code, "details": outcome.details, "us": round(outcome.took_us, 1)}
            if frame is not None:
                rest |= {name: getattr(frame, name).tobytes() for name in ARRAYS}
            step = Step(0 if frame is None else frame.seq, actions, control, **rest)
            self._recorder.write(step, moves=True)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        call = _PendingCall(self.name, self._recorder, method, request)
        try:
            response = self._inner.call(method, request, deadline)
        except Exception as error:
            call.end(error)
            raise
        call.add(response)
        call.end()
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        call = _PendingCall(self.name, self._recorder, method, request)
        return _RecordedStream(self._inner.stream(method, request, deadline, copy=copy), call)

    def close(self) -> None:
        super().close()
        self._recorder.flush()


class _PendingCall:
    """A call that is being made over the transport called `name`; its request is kept as it is now."""

    def __init__(self, name: str, recorder: Recorder, method: Method, request: Any) -> None:
        self._name = name
        self._recorder = recorder
        self._method = method
        self._items: list[bytes] = []
        self._kept_bytes = self._more = 0
        self._moves = recorder.moves
        self._lock = threading.Lock()
        try:  # before it is sent: an engine in this process may keep and change it
            self._request: bytes | None = encode(owned(request))
        except (TypeError, ValueError):  # the transport refuses it too
            self._request = None
        self._began_ns = time.perf_counter_ns()

    def add(self, item: Any) -> None:
        """Keep a response or an item, as long as there is room."""
        if self._more or len(self._items) == KEPT_ITEMS or self._kept_bytes >= KEPT_BYTES:
            self._more += 1
            return
        try:
            self._items.append(encode(owned(item)))
            self._kept_bytes += len(self._items[-1])
        except (TypeError, ValueError):  # an engine in this very process answered what no wire could carry
            self._more += 1

    def end(self, error: Exception | None = None, *, left: bool = False, dropped: int = 0) -> None:
        """Write the call, once, with how it ended; nothing when it was refused before it was sent."""
        with self._lock:
            request, self._request = self._request, None
        if request is None or not isinstance(error, TransportError | None):
            return
        took_ns = time.perf_counter_ns() - self._began_ns
        outcome = call_outcome(self._name, self._items, ending_of(error), took_ns, dropped=dropped, more=self._more)
        moved = self._method.stream is not None and self._recorder.moves != self._moves
        entry = call_entry(self._method.name, [request], outcome, FLATBUFFERS, left=left, moved=moved)
        self._recorder.write(entry, moves=self._method.effect is not Effect.READ)


class _RecordedStream(Stream):
    """A stream of another transport; its end, by either side, is recorded."""

    def __init__(self, inner: Stream, call: _PendingCall) -> None:
        self._inner = inner
        self._call = call

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As counted by the recorded stream."""
        return self._inner.dropped

    def __next__(self) -> Any:
        try:
            item = next(self._inner)
        except Exception as error:
            self._call.end(None if isinstance(error, StopIteration) else error, dropped=self.dropped)
            raise
        self._call.add(item)
        return item

    def cancel(self) -> None:
        self._inner.cancel()
        self._call.end(left=True, dropped=self.dropped)
