"""What is taken from a ring: the envelopes that travel most as their fields, any other record as its bytes."""

from __future__ import annotations

from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, decode_envelope
from lucky_transport.codec.pictured import PicturedFields, decode_pictured
from lucky_transport.codec.plain import Plain, decode_plain

__all__ = ["Items", "Popped", "envelope_of", "taken_apart"]

#: A plain envelope has 5 fields, one with a picture 8. A ring that is empty gives None.
Popped = Plain | PicturedFields | bytes
#: Some plain stream items of one call that lay behind each other: its correlation id, and their payloads.
Items = tuple[int, list[bytes]]


def taken_apart(record: bytes) -> Popped:
    """Return the fields of a plain envelope or of one with a picture, or the record itself when it is neither."""
    return decode_plain(record) or decode_pictured(record) or record


def envelope_of(popped: Popped) -> Envelope:
    """Return the whole envelope of what was taken from a ring. Raises RemoteProtocolError for an unsound record."""
    if not isinstance(popped, tuple):
        return decode_envelope(popped)
    if len(popped) == 5:
        method, correlation_id, deadline_ns, kind, payload = popped
        return Envelope(method, correlation_id, Kind(kind), deadline_ns, payload=payload)
    correlation_id, kind, dropped, payload, *place = popped
    return Envelope(0, correlation_id, Kind(kind), payload=payload, dropped=dropped, images=[ImagePlace(*place)])
