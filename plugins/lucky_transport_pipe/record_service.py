"""What an engine answers to a client that wants records instead of lines: calls, streams, and whole exchanges.

Exchanges, and whatever runs between steps, are done by the thread that reads: while it steps, nothing else of this
client is looked at. With its client the lease and everything else it held is given back.
"""

from __future__ import annotations

import threading

import numpy as np

from lucky_transport.config import Settings
from lucky_transport.errors import PeerDied, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.host import Host
from lucky_transport.host.lease import Lease
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.frame_layout import EXCHANGE, GET_SPEC, FrameLayout, unpack_request
from lucky_transport_pipe.record_pipe import RecordPipe

__all__ = ["RecordService"]

_SLICE_NS = 1_000_000_000
_ROOM_NS = 20_000_000


class RecordService:
    """Serves one client over `pipe`, which belongs to it from now on."""

    def __init__(self, host: Host, dispatcher: Dispatcher, pipe: RecordPipe, settings: Settings) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._pipe = pipe
        self._calls = dispatcher.serve(
            pipe,
            steps=True,
            max_message_bytes=settings.max_message_bytes,
            own={EXCHANGE: self._exchange, GET_SPEC: self._answer_spec},
        )
        self._layout = FrameLayout(host.spec)
        self._response = bytearray(self._layout.nbytes)
        self._buffers = self._layout.buffers(self._response)
        self._lease: Lease | None = None

    def serve(self, stopping: threading.Event) -> None:
        """Answer until the client has gone or `stopping` is set (and the pipe interrupted). Raises TransportError."""
        try:
            while not stopping.is_set():
                if self._pipe.wait(_SLICE_NS) and not self._calls.feed():
                    self._pipe.wait_writable(1, _ROOM_NS)
            self._calls.shut_down(PeerDied("the engine closed", backend=BACKEND, hint="start it and connect again"))
        finally:
            self._calls.close()
            if self._lease is not None:
                self._lease.release()
            self._dispatcher.leave(self._pipe.peer)

    def _answer_spec(self, call: ServerCall) -> None:
        call.finish(self._host.spec.to_json().encode())

    def _exchange(self, call: ServerCall) -> None:
        try:
            _, actions, control = unpack_request(self._host.spec, call.payload)
            if self._lease is None or not self._lease.valid:
                self._lease = self._host.drive(self._pipe.peer, self._buffers)
            np.copyto(self._buffers.actions, actions)
            self._lease.step(control)
        except TransportError as error:
            call.fail(error)
        else:
            call.finish(bytes(self._response))
