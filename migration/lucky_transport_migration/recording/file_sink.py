"""What a recorded transport writes, to a file.

What is refused before anything was sent (wrong arguments) is not written. A stream is one entry; of a long one the
first items are kept.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import PeerTimeout, TransportError
from lucky_transport.messages.methods import Effect, Method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_migration.evidence.outcome import call_outcome, ending_of
from lucky_transport_migration.recording.calls import KEPT_BYTES, KEPT_ITEMS, call_entry, encoded
from lucky_transport_migration.recording.entries import FLATBUFFERS
from lucky_transport_migration.recording.frames import step_entry
from lucky_transport_migration.recording.recorder import Recorder

__all__ = ["FileSink", "PendingCall", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """What an exchange was begun with, copied before it was sent."""

    actions: NDArray[Any]
    control: NDArray[np.uint8] | None
    began_ns: int


class FileSink:
    """Writes what goes over the transport `name` to a recorder, from any thread."""

    def __init__(self, name: str, spec: BatchSpec, recorder: Recorder) -> None:
        self._name = name
        self._spec = spec
        self._recorder = recorder

    def exchanged(self, sent: Sent | None, frame: Frame | None, error: Exception | None) -> None:
        """Write what `recv` returned or raised. sent: None when nothing was outstanding. After PeerTimeout the exchange
        stays open and comes again.
        """
        is_open = isinstance(error, PeerTimeout)
        if sent is None or is_open or not isinstance(error, TransportError | None):
            return
        took_ns = time.perf_counter_ns() - sent.began_ns
        outcome = call_outcome(self._name, [], ending_of(error), took_ns)
        actions = np.ascontiguousarray(sent.actions, self._spec.action.dtype).tobytes()
        control = None if sent.control is None else np.asarray(sent.control, np.uint8).tobytes()
        self._recorder.write(step_entry(actions, control, frame, outcome), moves=True)

    def begin(self, method: Method, request: Any) -> PendingCall:
        """Return what takes the call; its request is kept as it is now."""
        return PendingCall(self._name, self._recorder, method, request)

    def flush(self) -> None:
        """Complete the file."""
        self._recorder.flush()


class PendingCall:
    """A call that is being made over the transport called `name`."""

    def __init__(self, name: str, recorder: Recorder, method: Method, request: Any) -> None:
        self._name = name
        self._recorder = recorder
        self._method = method
        self._items: list[bytes] = []
        self._kept_bytes = self._more = 0
        self._moves = recorder.moves
        self._lock = threading.Lock()
        try:  # before it is sent: an engine in this process may keep and change it
            self._request: bytes | None = encoded(request)
        except (TypeError, ValueError):  # the transport refuses it too
            self._request = None
        self._began_ns = time.perf_counter_ns()

    def add(self, item: Any) -> None:
        """Keep a response or an item, as long as there is room."""
        if self._more or len(self._items) == KEPT_ITEMS or self._kept_bytes >= KEPT_BYTES:
            self._more += 1
            return
        try:
            self._items.append(encoded(item))
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
