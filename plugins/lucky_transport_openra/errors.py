"""What the original engine's status codes and texts are beside those of all gRPC.

A server answers each error with the status of `lucky_transport.errors`, which the original uses too, but for a session
that it does not know. A status without our metadata is from a foreign engine or from gRPC; then `_RAISED` says what it
is, and where it says nothing the table of all gRPC does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lucky_transport.errors import Busy, PeerDied, SessionEnded, TransportError, UnknownSession
from lucky_transport_grpc.errors import from_rpc, is_ours, refuse
from lucky_transport_grpc.runtime import grpc

__all__ = ["BUSY", "from_bridge", "refuse_bridge"]

_Code = grpc.StatusCode

#: What the original says, word for word, when no worker is free: clients may look for it.
BUSY = "All worker slots busy, retry later"

#: What the original answers -> ours, with the remedy, where the table of all gRPC says something else.
_RAISED: Mapping[Any, tuple[type[TransportError], str]] = {
    _Code.ABORTED: (SessionEnded, "create another one"),
    _Code.UNAVAILABLE: (PeerDied, "see whether the engine and the session still live"),
}


def refuse_bridge(context: Any, error: TransportError) -> NoReturn:
    """End the call of `context` as the original engine would."""
    if type(error) is Busy:
        error = Busy(f"{BUSY} ({error})", backend=error.backend)
    # The original looks five minutes for a session that it does not know and then tells that none became available.
    refuse(context, error, _Code.UNAVAILABLE if type(error) is UnknownSession else None)


def from_bridge(error: Any, peer: str) -> TransportError:
    """Return our error for the failed call `error` (a grpc.RpcError) to the engine at `peer`."""
    raised = _RAISED.get(error.code())
    if is_ours(error) or raised is None:
        return from_rpc(error, peer)
    kind, hint = raised
    return kind(f"engine at {peer}: {error.details()}", backend="openra", hint=hint)
