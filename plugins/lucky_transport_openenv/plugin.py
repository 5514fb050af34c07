"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="openenv",
            schemes=("openenv",),
            client="",
            server="lucky_transport_openenv.server:server",
            summary="an OpenEnv environment for agents: episodes and MCP tools over HTTP and WebSocket; serves only",
            extra="openenv",
            instead="use openenv.core.GenericEnvClient('http://{address}'), or serve the engine at shm:// too",
        )
    ]
