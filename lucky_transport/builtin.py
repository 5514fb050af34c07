"""The core's own contributions through its hooks: the transport without a wire, example engines, the commands."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, EngineInfo, TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="inproc",
            schemes=("inproc",),
            client="lucky_transport.inproc:connect",
            server="lucky_transport.inproc:server",
            summary="the engine in the client's own process, no wire; the reference of parity",
            local_endpoint="inproc://{name}",
        )
    ]


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="toy",
            variants=("composite", "idle", "copy"),
            factory="lucky_transport.engines.toy_composite:make_engine",
            summary="deterministic engine of any size, with delay and fault knobs",
        ),
        EngineInfo(
            name="cartpole",
            factory="lucky_transport.engines.cartpole:make_engine",
            summary="a pole on a cart, with wind: worlds for sessions, or a batch",
            worlds="lucky_transport.engines.cartpole:CartPoleWorlds",
        ),
        EngineInfo(
            name="pendulum",
            factory="lucky_transport.engines.pendulum:make_engine",
            summary="pendulums in arithmetic that any language repeats bit for bit",
        ),
    ]


#: Commands, each in a module of `cli` of its name: what it does, and the section of the help.
_COMMANDS = (
    ("serve", "run an engine at one or several endpoints", "run"),
    ("ls", "list what runs on this host and what is installed", "look"),
    ("inspect", "show what an engine or server at an endpoint offers", "look"),
    ("services", "switch services of a running engine on and off, limit its streams", "run"),
    ("doctor", "find what is wrong with this machine and mend it", "look"),
)


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(name, f"lucky_transport.cli.{name}:{name}", summary, section=section)
        for name, summary, section in _COMMANDS
    ]
