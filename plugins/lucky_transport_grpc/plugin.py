"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="grpc",
            schemes=("grpc", "grpc+unix"),
            client="lucky_transport_grpc.client:connect",
            server="lucky_transport_grpc.server:server",
            summary="legacy gRPC: the luckyrobots 0.5.0 services, and a packed batch service beside them",
            local_endpoint="grpc://127.0.0.1:0",
            extra="grpc",
        )
    ]
