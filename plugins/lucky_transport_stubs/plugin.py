"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, ForeignServicesInfo, PatchPlugin, hookimpl


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(
            "run",
            "lucky_transport_stubs.run.command:run",
            "run an unmodified program over shared memory",
            section="run",
        ),
        CommandInfo(
            "relay",
            "lucky_transport_stubs.relay.command:relay",
            "carry calls from shared memory to a gRPC server of any language",
            extra="grpc",
            section="run",
        ),
    ]


@hookimpl
def lucky_transport_foreign_services() -> list[ForeignServicesInfo]:
    return [
        ForeignServicesInfo(
            "grpc",
            services="lucky_transport_stubs.server.engine_services:EngineServices",
            summary="the gRPC services of every engine, for generated stubs",
            extra="grpc",
        )
    ]


@hookimpl
def lucky_transport_patches() -> list[PatchPlugin]:
    return [
        PatchPlugin(
            "grpc",
            activate="lucky_transport_stubs.run.here:activate_here",
            summary="channels that grpc and grpc.aio make",
            extra="grpc",
        )
    ]
