"""What the caller of a unary method waits for: one payload, or an error.

Rule 1: it is a `ClientCall` without anything that costs time; it takes the same envelopes and refuses the same ones.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.calls.outcome import Metadata
from lucky_transport.codec.envelope import Envelope, Kind
from lucky_transport.errors import RemoteProtocolError, TransportError, from_wire

__all__ = ["UnaryAnswer"]


class UnaryAnswer:
    """What a unary caller waits for."""

    __slots__ = ("done", "error", "gates", "payload")

    def __init__(self) -> None:
        self.done = False
        self.payload = b""
        self.error: TransportError | None = None
        self.gates: list[Any] = []

    def is_done(self) -> bool:
        return self.done

    def on_response(self, payload: bytes, trailing: Metadata) -> None:
        self.payload = payload
        self.done = True

    def on_item(self, payload: bytes, dropped: int) -> None:
        raise RemoteProtocolError("a stream item for a unary call", hint="the peer speaks another protocol")

    def on_envelope(self, envelope: Envelope) -> None:
        if envelope.kind is Kind.RESPONSE:
            self.on_response(envelope.payload, ())
        elif envelope.kind is Kind.ERROR:
            self.on_error(from_wire(envelope.status, envelope.details))
        else:
            raise RemoteProtocolError(f"{envelope.kind.name} for a unary call", hint="the peer speaks another protocol")

    def on_error(self, error: TransportError) -> None:
        if not self.done:
            self.error = error
            self.done = True
