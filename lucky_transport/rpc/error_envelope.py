"""What both ends of a call put into envelopes beside payloads: method names, metadata, errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from lucky_transport.call import Metadata
from lucky_transport.codec.envelope import Envelope, Kind, Metadatum
from lucky_transport.errors import StatusError, TransportError, from_wire

__all__ = ["GOAWAY", "Metadata", "copy_error", "error_envelope", "error_in", "from_metadata", "name_of", "to_metadata"]

#: The correlation id of an error that ends the connection, as HTTP/2's GOAWAY does.
GOAWAY = 0


def name_of(method: int | str) -> str:
    """Return the full name of a method given by id or name, for error texts."""
    if isinstance(method, str):
        return method
    # A process of stubs does without the table, and an interpreter that shuts down imports nothing.
    row = getattr(sys.modules.get("lucky_transport.messages.methods"), "BY_ID", {}).get(method)
    return row.name if row else f"method {method}"


def to_metadata(pairs: Iterable[tuple[str, str | bytes]]) -> list[Metadatum]:
    """Return metadata as it travels. Raises TypeError for keys or values of other types."""
    return [Metadatum(key, value.encode() if isinstance(value, str) else value) for key, value in pairs]


def from_metadata(entries: Iterable[Metadatum]) -> Metadata:
    """Return metadata as handlers and callers see it: as in gRPC, values are bytes where the key ends in "-bin"."""
    return tuple(
        (entry.key, entry.value if entry.key.endswith("-bin") else entry.value.decode(errors="replace"))
        for entry in entries
    )


def copy_error(error: TransportError, backend: str) -> TransportError:
    """Return a new error of the same class and text, so that tracebacks of several threads do not mix."""
    if isinstance(error, StatusError):
        return StatusError(error.code, error.details, error.trailing, backend=error.backend or backend)
    return from_wire(error.wire_code, str(error), backend=error.backend or backend)


def error_envelope(method: int, correlation_id: int, error: TransportError, dropped: int = 0) -> Envelope:
    """Return the envelope that ends a call with an error."""
    envelope = Envelope(
        method, correlation_id, Kind.ERROR, status=error.wire_code, details=_legal(str(error)), dropped=dropped
    )
    if isinstance(error, StatusError):
        envelope.code = error.code
        envelope.metadata = to_metadata(error.trailing)
    return envelope


def error_in(envelope: Envelope) -> TransportError:
    """Return the error of an envelope."""
    trailing = from_metadata(envelope.metadata)
    return from_wire(envelope.status, envelope.details, status=envelope.code, trailing=trailing)


def _legal(text: str) -> str:
    """Replace what UTF-8 cannot encode, as in file names: the text must reach the caller all the same."""
    return text.encode(errors="replace").decode()
