"""Names and attributes of spans and metrics, by OpenTelemetry's semantic conventions for RPC.

They are those of release 1.40 and later: `rpc.system.name`, a method's full name in `rpc.method`, status codes by their
names, durations in seconds. What the conventions have no name for is in the namespace `lucky_transport`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import Any

from lucky_transport.errors import Status, TransportError, status_of
from lucky_transport.interceptors import InterceptionPoint, Side

#: The name of a step among methods.
STEP = "lucky_transport.Engine/Step"

#: Those that the conventions advise, from 5 ms on, and smaller ones: a step in shared memory takes microseconds.
BOUNDARIES_S = (
    *(2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3),
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
)

_SYSTEM = "lucky_transport"


def point_attributes(point: InterceptionPoint, method: str) -> dict[str, Any]:
    """Return what is known before a call or step of `method` begins; `method` as in `rpc.method`."""
    attributes: dict[str, Any] = {
        "rpc.system.name": "grpc" if point.transport == "grpc" else _SYSTEM,
        "rpc.method": method,
        "lucky_transport.engine": point.engine,
    }
    if point.side is Side.ENGINE:
        return attributes
    attributes["lucky_transport.transport"] = point.transport
    if point.endpoint is not None and point.endpoint.address:
        attributes |= _server(point.endpoint.scheme, point.endpoint.address)
    return attributes


def _server(scheme: str, address: str) -> dict[str, Any]:
    """Return the attributes of where the engine is: host and port, or the name of a socket or segment."""
    host, colon, port = address.rpartition(":")
    if scheme == "grpc+unix":
        return {"server.address": address, "network.transport": "unix"}
    if colon and port.isdecimal():
        return {"server.address": host.strip("[]"), "server.port": int(port), "network.transport": "tcp"}
    return {"server.address": address}


#: What the conventions for gRPC call an error of the server; all others are the client's own doing.
_SERVER_ERRORS = frozenset(
    (
        Status.UNKNOWN,
        Status.DEADLINE_EXCEEDED,
        Status.UNIMPLEMENTED,
        Status.INTERNAL,
        Status.UNAVAILABLE,
        Status.DATA_LOSS,
    )
)


def ended_attributes(side: Side, error: BaseException | None) -> dict[str, Any]:
    """Return what is known when it has ended: the status, and "error.type" where this side calls it a failure."""
    if error is None:
        return {"rpc.response.status_code": Status.OK.name}
    if isinstance(error, CancelledError | asyncio.CancelledError | GeneratorExit):
        code = Status.CANCELLED
    elif isinstance(error, TransportError):
        code = status_of(error)
    else:
        return {"error.type": f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")}
    attributes = {"rpc.response.status_code": code.name}
    if side is Side.CLIENT or code in _SERVER_ERRORS:
        attributes["error.type"] = code.name
    return attributes
