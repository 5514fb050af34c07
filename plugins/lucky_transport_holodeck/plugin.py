"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="holodeck",
            schemes=("holodeck",),
            client="lucky_transport_holodeck.client:connect",
            server="lucky_transport_holodeck.server:server",
            summary="Holodeck's and HoloOcean's semaphores and buffers, for their clients and for their worlds",
            extra="holodeck",
        )
    ]


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(
            "export-holodeck",
            "lucky_transport_holodeck.export:export_holodeck",
            "write a world package that the holodeck package starts an engine from",
        )
    ]
