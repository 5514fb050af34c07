"""The contributions of a plugin, as pluggy hooks (entry point group `lucky_transport`).

A plugin's module (`plugin.py`) imports nothing heavy: it names its offers as "module:attribute", and each is imported
when it is used. So a missing dependency never hides the other plugins.
"""

from __future__ import annotations

from typing import NamedTuple

import pluggy

__all__ = [
    "PROJECT",
    "CommandInfo",
    "EngineInfo",
    "ForeignServicesInfo",
    "FrameworkInfo",
    "InterceptorInfo",
    "PatchPlugin",
    "RouterPlugin",
    "TransportInfo",
    "hookimpl",
    "hookspec",
]

PROJECT = "lucky_transport"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class TransportInfo(NamedTuple):
    """A transport on offer.

    `client`: "module:function", called as `f(endpoint, settings) -> Transport`. `server`: "module:function", called as
    `f(endpoint, settings) -> Server`. `local_endpoint`: the URL `make` gives a freshly started engine process
    ("{name}" is replaced by a unique name), "" when the transport cannot be started that way. `extra`: what to
    `pip install 'lucky-transport[extra]'` when an import fails ("" = nothing). `routes`: it leads to other transports,
    so that no other transport's name contradicts its endpoints. `clean_up`: "module:function", called as `f()` before
    an engine is served at such an endpoint and after one was killed, to remove what killed engines could not
    remove ("" = nothing). `starts_engines`: its client starts the engines that its endpoint names, so connecting takes
    as long as starting. `instead`: what to use for the `client` or `server` that is "", because there is no such end;
    "{address}" in it is the endpoint's.
    """

    name: str
    schemes: tuple[str, ...]
    client: str
    server: str
    summary: str
    local_endpoint: str = ""
    extra: str = ""
    routes: bool = False
    clean_up: str = ""
    starts_engines: bool = False
    instead: str = ""


class EngineInfo(NamedTuple):
    """An engine on offer.

    `factory`: "module:function", called as `f(variant, num_envs=..., **options) -> Engine`, where `variant` is what
    stands behind the colon of "name:variant" ("" when nothing does). `worlds`: "module:function" that returns the
    `Worlds` of an engine with sessions, for clients that need their messages ("" = no sessions).
    """

    name: str
    factory: str
    summary: str
    variants: tuple[str, ...] = ()
    extra: str = ""
    worlds: str = ""


class CommandInfo(NamedTuple):
    """A subcommand of `lucky-transport`: `command` is "module:click_command", imported when it is used.

    `extra`: what to `pip install 'lucky-transport[extra]'` when a package is missing; several are separated by commas.
    `section`: under which `lucky-transport --help` lists it: "run", "prove", "migrate", "look" or "more".
    """

    name: str
    command: str
    summary: str
    extra: str = ""
    section: str = "more"


class ForeignServicesInfo(NamedTuple):
    """Services of an engine in another protocol's messages, which travel through our transports as they are.

    `services`: "module:function", called as `f(host) -> ForeignServices` (see `lucky_transport.host.foreign`). `extra`
    as in `TransportInfo`; where it is missing, the engine is served without them.
    """

    name: str
    services: str
    summary: str
    extra: str = ""


class InterceptorInfo(NamedTuple):
    """An interceptor that the setting `interceptors` can name, "name" or "name:variant".

    `factory`: "module:function", called as `f(variant) -> lucky_transport.interceptors.Interceptor` for each connection
    and each engine. variants: the known ones, "*" for any. `extra` as in `TransportInfo`.
    """

    name: str
    factory: str
    summary: str
    variants: tuple[str, ...] = ()
    extra: str = ""


class FrameworkInfo(NamedTuple):
    """A training framework that envs are made for: `make(framework=name)`.

    `autoreset_mode`: the mode that the framework expects of a vector env, "NextStep", "SameStep" or "Disabled". `use`:
    how such an env is handed to the framework, in a few words of code. `keeps_observations`: whether it uses an
    observation once the next step has begun, for which `make(copy=False)` is refused.
    """

    name: str
    autoreset_mode: str
    use: str
    keeps_observations: bool = True


class PatchPlugin(NamedTuple):
    """A patch of this process: it uses our transports where it used another library.

    `activate`: "module:function", called without arguments by `import lucky_transport.auto`. `extra` as in
    `TransportInfo`.
    """

    name: str
    activate: str
    summary: str
    extra: str = ""


class RouterPlugin(NamedTuple):
    """A router of staged migrations.

    `open`: "module:function", called as `f() -> lucky_transport.routing.Router`; it returns the same one each time.
    `record`: "module:function", called as `f(transport)`, returns a router in the same way that leaves every call to
    that transport and records it where the settings say. `extra` as in `TransportInfo`.
    """

    name: str
    open: str
    record: str
    summary: str
    extra: str = ""


@hookspec
def lucky_transport_transports() -> list[TransportInfo]:  # pyright: ignore[reportReturnType]
    """Return the transports this plugin offers."""


@hookspec
def lucky_transport_engines() -> list[EngineInfo]:  # pyright: ignore[reportReturnType]
    """Return the engines this plugin offers."""


@hookspec
def lucky_transport_commands() -> list[CommandInfo]:  # pyright: ignore[reportReturnType]
    """Return the subcommands this plugin adds to `lucky-transport`."""


@hookspec
def lucky_transport_foreign_services() -> list[ForeignServicesInfo]:  # pyright: ignore[reportReturnType]
    """Return the foreign services this plugin offers for every engine."""


@hookspec
def lucky_transport_interceptors() -> list[InterceptorInfo]:  # pyright: ignore[reportReturnType]
    """Return the interceptors this plugin offers."""


@hookspec
def lucky_transport_frameworks() -> list[FrameworkInfo]:  # pyright: ignore[reportReturnType]
    """Return the training frameworks this plugin knows."""


@hookspec
def lucky_transport_patches() -> list[PatchPlugin]:  # pyright: ignore[reportReturnType]
    """Return the patches this plugin offers."""


@hookspec
def lucky_transport_routers() -> list[RouterPlugin]:  # pyright: ignore[reportReturnType]
    """Return the routers this plugin offers."""
