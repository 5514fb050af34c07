"""What the migration kit contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, EngineInfo, InterceptorInfo, RouterPlugin, TransportInfo, hookimpl

__all__: list[str] = []


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(
            "demo",
            "lucky_transport_migration.cli.demo:demo",
            "step one batch over gRPC and shm, side by side",
            extra="bench",
            section="run",
        ),
        CommandInfo(
            "parity",
            "lucky_transport_migration.cli.parity:parity",
            "prove that transports answer the same",
            extra="bench",
            section="prove",
        ),
        CommandInfo(
            "bench",
            "lucky_transport_migration.cli.bench:bench",
            "measure transports against each other",
            extra="bench",
            section="prove",
        ),
        CommandInfo(
            "train",
            "lucky_transport_migration.cli.train:train",
            "teach robots to walk, over each transport",
            extra="train",
            section="run",
        ),
        CommandInfo(
            "stage",
            "lucky_transport_migration.cli.stage:stage",
            "show and set how far each method has moved",
            extra="scan",
            section="migrate",
        ),
        CommandInfo(
            "gate",
            "lucky_transport_migration.cli.gate:gate",
            "judge by evidence whether methods may move on",
            extra="scan",
            section="migrate",
        ),
        CommandInfo(
            "signoff",
            "lucky_transport_migration.cli.signoff:signoff",
            "write the page to sign, with all that was compared",
            extra="migration",
        ),
        CommandInfo(
            "top",
            "lucky_transport_migration.cli.top:top",
            "watch engines, clients and step rates of this host",
            extra="top",
            section="look",
        ),
        CommandInfo(
            "record", "lucky_transport_migration.cli.record:record", "record what a client does", section="prove"
        ),
        CommandInfo(
            "replay",
            "lucky_transport_migration.cli.replay:replay",
            "make recorded calls again and compare",
            section="prove",
        ),
        CommandInfo(
            "scan",
            "lucky_transport_migration.cli.scan:scan",
            "find what is left of gRPC in Python code",
            extra="scan",
            section="migrate",
        ),
    ]


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="echo",
            factory="lucky_transport_migration.bench.echo_engine:make_engine",
            summary="answers commands and streams at once: the engine of `bench --suite commands`",
        ),
    ]


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="staged",
            schemes=("staged",),
            client="lucky_transport_migration.routing.client:open_staged",
            server="",
            summary="each method over the transport that its stage says",
            routes=True,
            instead="serve the engine at both, e.g. --endpoint grpc://127.0.0.1:50051 --endpoint shm://demo",
        ),
        TransportInfo(
            name="recorded",
            schemes=("recorded",),
            client="lucky_transport_migration.recording.client:open_recorded",
            server="",
            summary="another transport, with everything written to a file",
            routes=True,
            instead="serve at another endpoint and record its clients",
        ),
    ]


@hookimpl
def lucky_transport_interceptors() -> list[InterceptorInfo]:
    factory = "lucky_transport_migration.parity.stream_log:make_interceptor"
    return [InterceptorInfo("stream-log", factory, "which streams run, for `parity`", ("*",))]


@hookimpl
def lucky_transport_routers() -> list[RouterPlugin]:
    opener = "lucky_transport_migration.routing.router:process_router"
    return [RouterPlugin("stages", opener, "the stages of this project")]
