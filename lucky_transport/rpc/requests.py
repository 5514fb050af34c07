"""The record that opens a call: its method by id, name or number, its deadline, metadata and first window."""

from __future__ import annotations

from lucky_transport.codec.envelope import Envelope, Kind, encode_compact, encode_envelope
from lucky_transport.rpc.error_envelope import Metadata, to_metadata
from lucky_transport.rpc.flow_control import WindowSize
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.method_names import MethodNameEncoder

__all__ = ["RequestEncoder"]


class RequestEncoder:
    """Encodes the requests of one connection, whose longest record has `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._names = MethodNameEncoder()

    def number_of(self, method: int | str) -> int | None:
        """Return the id or number by which requests name the method; None while they need its name."""
        return self._names.get(method) if isinstance(method, str) else method

    def encode(
        self,
        method: int | str,
        correlation_id: int,
        payload: bytes,
        remaining_ns: int,
        metadata: Metadata,
        shape: Shape = Shape.UNARY,
        window: WindowSize | None = None,
    ) -> bytes:
        """Return the record. remaining_ns: what is left until the deadline, 0 for none. window: the answer's, at first.

        Raises TypeError for metadata of other types.
        """
        path = ""
        number = self.number_of(method)
        if number is None:
            path = str(method)
            number = self._names.number(path, correlation_id)
        if not shape and not path and not metadata:
            return encode_compact(Kind.REQUEST, correlation_id, payload, number, remaining_ns)
        envelope = Envelope(
            number,
            correlation_id,
            Kind.REQUEST,
            remaining_ns,
            metadata=to_metadata(metadata),
            payload=payload,
            path=path,
            streams=int(shape),
        )
        if window is not None and shape & Shape.SERVER_STREAM:
            envelope.items, envelope.window = window.items, window.bytes
        return encode_envelope(envelope)

    def note_sent(self, method: int | str, correlation_id: int, record: bytes) -> None:
        """Use the method's number from now on, unless the request that gave it travels in fragments."""
        if isinstance(method, str) and len(record) <= self._largest:
            self._names.left(method, correlation_id)
