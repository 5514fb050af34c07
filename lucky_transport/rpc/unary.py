"""What the caller of a unary method waits for: one payload or an error, and the metadata around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.codec.envelope import Envelope, Kind
from lucky_transport.errors import RemoteProtocolError, StatusError, TransportError
from lucky_transport.rpc.completion_thread import NO_GROUP, CallGroup
from lucky_transport.rpc.error_envelope import Metadata, error_in, from_metadata


class UnaryResult:
    """A `ClientCall` without what costs time; it takes the same envelopes and refuses the same ones.

    error: why there is no payload. headers, trailing: metadata of the response. has_started: headers came, if empty.
    """

    # Attributes of the class until they are set: a call sets few of them, and needs no `__init__`.
    group: CallGroup = NO_GROUP
    done: bool = False
    payload: Any = b""
    error: TransportError | None = None
    gates: Sequence[Any] = ()
    headers: Metadata = ()
    trailing: Metadata = ()
    has_started: bool = False

    def is_done(self) -> bool:
        return self.done

    def on_response(self, payload: Any, trailing: Metadata) -> None:
        self.payload = payload
        self.trailing = trailing
        self.done = True

    def on_item(self, payload: Any, dropped: int) -> None:
        raise RemoteProtocolError("a stream item for a unary call", hint="the peer speaks another protocol")

    def on_items(self, payloads: list[bytes]) -> None:
        self.on_item(payloads[0], 0)

    def on_envelope(self, envelope: Envelope) -> None:
        if envelope.kind is Kind.RESPONSE:
            self.on_response(envelope.payload, from_metadata(envelope.metadata))
        elif envelope.kind is Kind.ERROR:
            self.on_error(error_in(envelope))
        elif envelope.kind is Kind.HEADERS:
            self.headers = from_metadata(envelope.metadata)
            self.has_started = True
        else:
            raise RemoteProtocolError(f"{envelope.kind.name} for a unary call", hint="the peer speaks another protocol")

    def on_error(self, error: TransportError) -> None:
        if not self.done:
            self.error = error
            if isinstance(error, StatusError):
                self.trailing = error.trailing
            self.done = True
