"""The bridge's column beside the one table of statuses, `lucky_transport.errors`: where the original engine answers
another status, and what its statuses and texts are raised as.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lucky_transport.errors import Busy, PeerDied, SessionEnded, Status, TransportError, UnknownSession
from lucky_transport_grpc.errors import from_rpc, is_ours, refuse
from lucky_transport_grpc.runtime import grpc

_Code = grpc.StatusCode

#: What the original says, word for word, when no worker is free: clients may look for it.
BUSY = "All worker slots busy, retry later"

#: The statuses of the bridge's methods that differ from the one table. The original looks five minutes for a session
#: that it does not know and then tells that none became available; its clients try again on that.
STATUSES: Mapping[type[TransportError], Status] = {UnknownSession: Status.UNAVAILABLE}

#: What a status without our metadata is raised as, with the remedy, where the table of all gRPC says something else.
_RAISED: Mapping[Any, tuple[type[TransportError], str]] = {
    _Code.ABORTED: (SessionEnded, "create another one"),
    _Code.UNAVAILABLE: (PeerDied, "see whether the engine and the session still live"),
}


def refuse_bridge(context: Any, error: TransportError) -> NoReturn:
    """End the call of `context` as the original engine would."""
    if type(error) is Busy:
        error = Busy(f"{BUSY} ({error})", backend=error.backend)
    refuse(context, error, STATUSES.get(type(error)))


def from_bridge(error: Any, peer: str) -> TransportError:
    """Return our error for the failed call `error` (a grpc.RpcError) to the engine at `peer`."""
    raised = _RAISED.get(error.code())
    if is_ours(error) or raised is None:
        return from_rpc(error, peer)
    kind, hint = raised
    return kind(f"engine at {peer}: {error.details()}", backend="openra", hint=hint)
