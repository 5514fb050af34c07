"""What the migration kit contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, EngineInfo, InterceptorInfo, RouterPlugin, TransportInfo, hookimpl

#: Commands in `cli`: name, what it does, the extra that it needs, and the section of the help.
_COMMANDS = (
    ("demo", "step one batch over gRPC and shm, side by side", "bench", "run"),
    ("parity", "prove that transports answer the same", "bench", "prove"),
    ("bench", "measure transports against each other", "bench", "prove"),
    ("stage", "show and set how far each method has moved", "scan", "migrate"),
    ("gate", "judge by evidence whether methods may move on", "scan", "migrate"),
    ("signoff", "write the page to sign, with all that was compared", "migration", "migrate"),
    ("top", "watch engines, clients and step rates of this host", "top", "look"),
    ("record", "record what a client does", "", "prove"),
    ("replay", "make recorded calls again and compare", "", "prove"),
    ("scan", "find what is left of gRPC in Python code", "scan", "migrate"),
)


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(name, f"lucky_transport_migration.cli.{name}:{name}", summary, extra=extra, section=section)
        for name, summary, extra, section in _COMMANDS
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
            client="lucky_transport_migration.routing.staged_transport:open_staged",
            server="",
            summary="each method over the transport that its stage says",
            routes=True,
            instead="serve the engine at both, e.g. --endpoint grpc://127.0.0.1:50051 --endpoint shm://demo",
        ),
        TransportInfo(
            name="recorded",
            schemes=("recorded",),
            client="lucky_transport_migration.recording.recorded_transport:open_recorded",
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
    module = "lucky_transport_migration.routing.router"
    return [
        RouterPlugin("stages", f"{module}:process_router", f"{module}:recording_router", "the stages of this project")
    ]
