"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="shm",
            schemes=("shm",),
            client="lucky_transport_shm.client:connect",
            server="lucky_transport_shm.server:server",
            summary="raw arrays in shared memory, for an engine on the same host",
            local_endpoint="shm://{name}",
            extra="shm",
            clean_up="lucky_transport.shm.segment.segment_files:remove_stale",
        )
    ]
