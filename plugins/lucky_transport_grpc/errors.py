"""gRPC's status codes on the wire: an error of ours travels with its status of `lucky_transport.errors` and, in the
trailing metadata, as (wire code, text), so that our clients raise the same class with the same text. A status without
that metadata is from gRPC itself or from a foreign engine; `RAISED` is what it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lucky_transport.errors import (
    MAX_TEXT_BYTES,
    Busy,
    Cancelled,
    EngineFailed,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
    Status,
    TransportError,
    Unimplemented,
    UnknownName,
    from_wire,
    status_of,
)
from lucky_transport_grpc.metadata import ERROR
from lucky_transport_grpc.runtime import grpc

_Code = grpc.StatusCode

_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in _Code}

_NOT_LET_IN = "the engine does not let this client in"
#: What a status without an error of ours is raised as, and the remedy.
RAISED: Mapping[grpc.StatusCode, tuple[type[TransportError], str]] = {
    _Code.OK: (RemoteProtocolError, "a success cannot be an error: report this"),
    _Code.CANCELLED: (Cancelled, "the engine ended the call; connect again"),
    _Code.UNKNOWN: (EngineFailed, "see the engine's log"),
    _Code.INVALID_ARGUMENT: (SpecError, ""),
    _Code.DEADLINE_EXCEEDED: (PeerTimeout, "raise the timeout, or see what the engine is doing"),
    _Code.NOT_FOUND: (UnknownName, ""),
    _Code.ALREADY_EXISTS: (Busy, ""),
    _Code.PERMISSION_DENIED: (NotReachable, _NOT_LET_IN),
    _Code.RESOURCE_EXHAUSTED: (Busy, "try again later"),
    _Code.FAILED_PRECONDITION: (LocalProtocolError, ""),
    _Code.ABORTED: (Busy, ""),
    _Code.OUT_OF_RANGE: (SpecError, ""),
    _Code.UNIMPLEMENTED: (Unimplemented, "this engine does not serve that method"),
    _Code.INTERNAL: (EngineFailed, "see the engine's log"),
    _Code.UNAVAILABLE: (PeerDied, "start the engine again, then connect again"),
    _Code.DATA_LOSS: (RemoteProtocolError, ""),
    _Code.UNAUTHENTICATED: (NotReachable, _NOT_LET_IN),
}
#: gRPC's own words for a message beyond a limit: it answers RESOURCE_EXHAUSTED, and a retry does not help.
_TOO_LONG = "message larger than max"

#: What gRPC's client says of a message that cannot be sent, or read.
_OF_OUR_MESSAGES = ("Exception serializing request!", "Exception deserializing response!")

# gRPC refuses a call whose metadata exceeds 8 KiB altogether. Details travel percent-encoded (three bytes for one at
# worst), binary metadata as base64 (four for three); this and the host's MAX_TEXT_BYTES keep both together below it.
_MAX_DETAILS_BYTES = 900


def code_for(error: TransportError) -> grpc.StatusCode:
    """Return gRPC's status code for an error of ours."""
    return _BY_NUMBER[status_of(error)]


def refuse(context: Any, error: TransportError, status: Status | None = None) -> NoReturn:
    """End the call of `context` with the text and trailing metadata of `error`, and with its status by the table or the
    one that a foreign protocol demands.
    """
    text = str(error)
    payload = f"{type(error).wire_code}:{_clipped(text, MAX_TEXT_BYTES)}".encode()
    context.set_trailing_metadata(((ERROR, payload),))
    code = code_for(error) if status is None else _BY_NUMBER[status]
    context.abort(code, _clipped(text, _MAX_DETAILS_BYTES))
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
    code, details = code_of(error), details_of(error)
    kind, hint = RAISED[code]
    if code is _Code.RESOURCE_EXHAUSTED and _TOO_LONG in details:
        kind, hint = RemoteProtocolError, "the message is larger than the engine accepts"
    what = "the connection is gone" if kind is PeerDied else f"status {code.name}"
    return kind(f"engine at {peer}: {what}: {details}", backend="grpc", hint=hint)


def code_of(error: Any) -> grpc.StatusCode:
    """Return the status of a failed call; UNKNOWN for an interceptor's error, which need not have one."""
    code = getattr(error, "code", None)
    told = code() if callable(code) else None
    return told if isinstance(told, _Code) else _Code.UNKNOWN


def details_of(error: Any) -> str:
    """Return the text of a failed call; that of the exception where an interceptor raised one without details."""
    details = getattr(error, "details", None)
    return str(error) if details is None else str(details())


def is_local_timeout(error: Any) -> bool:
    """True when the call `error` ended by our own deadline: whether the engine did what it asked for is unknown."""
    return code_of(error) is _Code.DEADLINE_EXCEEDED and not is_ours(error)


def is_given_up(error: Any) -> bool:
    """True when the call `error` ended on this side, by its deadline or because gRPC took what a signal handler raised
    for a failure of the message's code: the engine may have done what it asked for.
    """
    return is_local_timeout(error) or details_of(error) in _OF_OUR_MESSAGES


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
