"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="pipe",
            schemes=("pipe",),
            client="",
            server="lucky_transport_pipe.server:server",
            summary="lines of text over a named pipe, as Unity training scenes speak them",
            instead="play experiments with lucky_transport_pipe.instance.Instance, or serve the engine at shm:// too",
        )
    ]
