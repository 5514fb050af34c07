"""A transport whose exchanges, calls and streams are written when they are over; its user sees the other transport."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout
from lucky_transport.messages.methods import Method
from lucky_transport.spec.actions import on_host
from lucky_transport.transport import Frame, Stream, Transport
from lucky_transport_migration.recording.file_sink import FileSink, PendingCall, Sent

__all__ = ["RecordedTransport"]


class RecordedTransport(Transport):
    """`inner`, recorded in `sink`. Closing it closes that and flushes the sink."""

    def __init__(self, inner: Transport, sink: FileSink) -> None:
        self.name = inner.name
        self.spec = inner.spec
        self.capabilities = replace(inner.capabilities, async_envs=False)  # a recording has whole steps
        self.actions = inner.actions
        self.observation_slots = inner.observation_slots
        self._inner = inner
        self._sink = sink
        self._sent: Sent | None = None

    @property
    def out_of_bounds(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As counted by the recorded transport."""
        return self._inner.out_of_bounds

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        sent = Sent(np.array(on_host(actions)), None if control is None else np.array(control), time.perf_counter_ns())
        self._inner.send(actions, control)
        self._sent = sent

    def recv(self, deadline: Deadline | None = None) -> Frame:
        try:
            frame = self._inner.recv(deadline)
        except Exception as error:
            self._sink.exchanged(self._sent, None, error)
            if not isinstance(error, PeerTimeout):
                self._sent = None
            raise
        self._sink.exchanged(self._sent, frame, None)
        self._sent = None
        return frame

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        call = self._sink.begin(method, request)
        try:
            response = self._inner.call(method, request, deadline)
        except Exception as error:
            call.end(error)
            raise
        call.add(response)
        call.end()
        return response

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        call = self._sink.begin(method, request)
        return _RecordedStream(self._inner.stream(method, request, deadline, copy=copy), call)

    def implements(self, method: Method) -> bool | None:
        return self._inner.implements(method)

    def close(self) -> None:
        self._inner.close()
        self._sink.flush()


class _RecordedStream(Stream):
    """A stream of another transport; its end, by either side, is recorded."""

    def __init__(self, inner: Stream, call: PendingCall) -> None:
        self._inner = inner
        self._call = call

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As counted by the recorded stream."""
        return self._inner.dropped

    def __next__(self) -> Any:
        try:
            item = next(self._inner)
        except StopIteration:
            self._call.end(dropped=self.dropped)
            raise
        except Exception as error:
            self._call.end(error, dropped=self.dropped)
            raise
        self._call.add(item)
        return item

    def cancel(self) -> None:
        self._inner.cancel()
        self._call.end(left=True, dropped=self.dropped)
