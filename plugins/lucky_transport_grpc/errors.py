"""gRPC status codes and the errors of this project: one table.

Rule 1: foreign exceptions end here; nothing else in this plugin decides what a status code means.
Rule 2: an error of ours crosses the wire as (wire code, text) in the trailing metadata and comes back as the same class
with the same text. The status beside it is for clients that know nothing of us.
Rule 3: a status without that metadata is from gRPC itself or from a foreign engine; then `raised` says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from lucky_transport.errors import (
    BrokenPlugin,
    Busy,
    Cancelled,
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    MissingExtra,
    NoSpace,
    NotReachable,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SegmentError,
    SessionEnded,
    SpecError,
    TransportError,
    Unimplemented,
    UnknownName,
    UnknownSession,
    from_wire,
)
from lucky_transport.host.lease import MAX_TEXT_BYTES
from lucky_transport_grpc.metadata import ERROR
from lucky_transport_grpc.runtime import grpc

__all__ = ["TABLE", "Row", "code_of", "details_of", "from_rpc", "is_local_timeout", "is_ours", "refuse", "status_of"]

_Code = grpc.StatusCode


@dataclass(frozen=True, slots=True)
class Row:
    """One status: the error `raised` for it, the remedy, and the errors a server of ours answers with it."""

    status: grpc.StatusCode
    raised: type[TransportError]
    hint: str = ""
    sent_for: tuple[type[TransportError], ...] = ()


#: Every status once; every error of ours in exactly one `sent_for`.
TABLE = (
    Row(_Code.OK, RemoteProtocolError, "a success cannot be an error: report this"),
    Row(_Code.CANCELLED, Cancelled, "the engine ended the call; connect again", (Cancelled,)),
    Row(_Code.UNKNOWN, EngineFailed, "see the engine's log", (TransportError,)),
    Row(_Code.INVALID_ARGUMENT, SpecError, "", (SpecError, ConfigError)),
    Row(_Code.DEADLINE_EXCEEDED, PeerTimeout, "raise the timeout, or see what the engine is doing", (PeerTimeout,)),
    Row(_Code.NOT_FOUND, UnknownName, "", (UnknownName, UnknownSession)),
    Row(_Code.ALREADY_EXISTS, Busy),
    Row(_Code.PERMISSION_DENIED, NotReachable, "the engine does not let this client in"),
    Row(_Code.RESOURCE_EXHAUSTED, RemoteProtocolError, "the message is larger than the engine accepts", (NoSpace,)),
    Row(_Code.FAILED_PRECONDITION, LocalProtocolError, "", (LocalProtocolError, MissingExtra, BrokenPlugin)),
    Row(_Code.ABORTED, Busy, "", (Busy, SessionEnded)),
    Row(_Code.OUT_OF_RANGE, SpecError),
    Row(_Code.UNIMPLEMENTED, Unimplemented, "this engine does not serve that method", (Unimplemented,)),
    Row(_Code.INTERNAL, EngineFailed, "see the engine's log", (EngineFailed,)),
    Row(
        _Code.UNAVAILABLE,
        PeerDied,
        "start the engine again, then connect again",
        (PeerDied, NotReachable, ClosedError),
    ),
    Row(_Code.DATA_LOSS, RemoteProtocolError, "", (RemoteProtocolError, SegmentError)),
    Row(_Code.UNAUTHENTICATED, NotReachable, "the engine does not let this client in"),
)

_BY_STATUS = {row.status: row for row in TABLE}
_STATUS = {error: row.status for row in TABLE for error in row.sent_for}

# gRPC refuses a call whose metadata exceeds 8 KiB altogether. Details travel percent-encoded (three bytes for one at
# worst), binary metadata as base64 (four for three); this and the host's MAX_TEXT_BYTES keep both together below it.
_MAX_DETAILS_BYTES = 900


def status_of(error: TransportError) -> grpc.StatusCode:
    """Return the status a server answers with when `error` is raised; UNKNOWN for a class of some plugin's own."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def refuse(context: Any, error: TransportError, status: grpc.StatusCode | None = None) -> NoReturn:
    """End the call of `context` with the text and trailing metadata of `error`, and with its status by the table or the
    one that a protocol of somebody else's demands.
    """
    text = str(error)
    payload = f"{type(error).wire_code}:{_clipped(text, MAX_TEXT_BYTES)}".encode()
    context.set_trailing_metadata(((ERROR, payload),))
    context.abort(status or status_of(error), _clipped(text, _MAX_DETAILS_BYTES))
    raise AssertionError("abort() raises")


def _clipped(text: str, limit_bytes: int) -> str:
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit_bytes:
        return encoded.decode()
    return encoded[:limit_bytes].decode(errors="ignore") + " ..."


def from_rpc(error: Any, peer: str) -> TransportError:
    """Return our error for the failed call `error` (a grpc.RpcError) to the engine at `peer`."""
    ours = _payload(error)
    if ours is not None:
        return ours
    code = code_of(error)
    row = _BY_STATUS[code]
    what = "the connection is gone" if row.raised is PeerDied else f"status {code.name}"
    return row.raised(f"engine at {peer}: {what}: {details_of(error)}", backend="grpc", hint=row.hint)


def code_of(error: Any) -> grpc.StatusCode:
    """Return the status of a failed call; UNKNOWN for an interceptor's error, which need not have one."""
    code = getattr(error, "code", None)
    return (code() if callable(code) else None) or _Code.UNKNOWN


def details_of(error: Any) -> str:
    """Return the text of a failed call; that of the exception where an interceptor raised one without details."""
    details = getattr(error, "details", None)
    return str(error) if details is None else str(details())


def is_local_timeout(error: Any) -> bool:
    """True when the call `error` ended by our own deadline: nobody knows whether the engine did what it asked for."""
    return code_of(error) is _Code.DEADLINE_EXCEEDED and not is_ours(error)


def is_ours(error: Any) -> bool:
    """True when the failed call `error` carries an error of ours, not only a status."""
    return _payload(error) is not None


def _payload(error: Any) -> TransportError | None:
    trailing = getattr(error, "trailing_metadata", None)
    for key, value in (trailing() if trailing is not None else None) or ():
        if key == ERROR and isinstance(value, bytes):
            code, _, text = value.decode(errors="replace").partition(":")
            return from_wire(int(code) if code.isdecimal() else 1, text, backend="grpc")
    return None
