"""What settings choose: the transport of a fresh engine, an end of a transport, the interceptors.

The transport that "auto" takes, and the reason, go to the log "lucky_transport".
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import BrokenPlugin, ConfigError, MissingExtra, Unimplemented, UnknownName
from lucky_transport.hookspecs import TransportInfo
from lucky_transport.interceptors import Interceptor
from lucky_transport.registry import load, registry

_log = logging.getLogger("lucky_transport")

#: What "auto" tries, best first.
_PREFERENCE = ("shm", "grpc", "inproc")


def choose_transport(settings: Settings) -> TransportInfo:
    """Return the transport for a fresh engine process; "auto" takes the best that loads and says so."""
    if settings.transport != "auto":
        info = _named(settings)
        if not info.local_endpoint:
            raise ConfigError(
                f"transport {info.name!r} cannot start an engine by itself",
                hint=f"pass make(endpoint='{info.schemes[0]}:?engine=...')"
                if info.starts_engines
                else "start one and pass its endpoint, or take transport='shm'",
            )
        return info
    refused: list[str] = []
    for name in _PREFERENCE:
        try:
            info = registry().transport(name)
            load(info.client, owner=f"transport {name!r}", extra=info.extra)
        except (UnknownName, MissingExtra, BrokenPlugin) as error:
            refused.append(f"{name} ({error})")
            continue
        _log.log(
            logging.WARNING if refused else logging.INFO,
            "transport auto: took %s%s",
            name,
            f"; not {', '.join(refused)}" if refused else ", the fastest there is",
        )
        return info
    raise UnknownName("no transport can be used", hint="run `lucky-transport doctor`")


def _named(settings: Settings) -> TransportInfo:
    """Return the transport that the settings name; raises UnknownName with the place where it is named."""
    try:
        return registry().transport(settings.transport)
    except UnknownName as error:
        source = settings.sources.get("transport", "default")
        text = f"{source}: {error}".removesuffix(f"; {error.hint}")
        raise UnknownName(text, hint=f"{error.hint}, or auto") from error


def check_agreement(settings: Settings) -> None:
    """Raise ConfigError where the settings name a transport and an endpoint of another one."""
    if settings.transport == "auto":
        return
    scheme = Endpoint.parse(settings.endpoint).scheme
    info = registry().transport_of_scheme(scheme)
    if not info.routes and _named(settings).name != info.name:
        raise ConfigError(
            f"transport {settings.transport!r} ({settings.sources.get('transport', 'default')}) and endpoint "
            f"{settings.endpoint!r} ({settings.sources.get('endpoint', 'default')}) contradict each other: "
            f"{scheme}: is served by {info.name!r}",
            hint="drop one of them",
        )


def end_of(info: TransportInfo, end: Literal["client", "server"], endpoint: Endpoint) -> Any:
    """Return what makes an end of a transport; raises Unimplemented where the transport has none."""
    target = info.client if end == "client" else info.server
    if not target:
        hint = info.instead.format(address=endpoint.address)
        raise Unimplemented(f"{endpoint}: transport {info.name!r} has no {end}", backend=info.name, hint=hint)
    return load(target, owner=f"transport {info.name!r}", extra=info.extra)


def chosen_interceptors(settings: Settings) -> list[Interceptor]:
    """Return the interceptors that the settings name; raises UnknownName, MissingExtra, ConfigError."""
    return [_interceptor(one, settings.sources.get("interceptors", "default")) for one in settings.interceptors]


def _interceptor(given: Any, source: str) -> Interceptor:
    if isinstance(given, Interceptor):
        return given
    if not isinstance(given, str):
        raise ConfigError(
            f"{source}: interceptors: got {given!r}",
            hint="pass names, or objects of lucky_transport.interceptors.Interceptor",
        )
    name, _, variant = given.partition(":")
    info = registry().interceptor(name)
    if variant and not {variant, "*"}.intersection(info.variants):
        known = ", ".join(f"{name}:{one}" for one in info.variants) or "none"
        raise UnknownName(f"no interceptor {given!r}", hint=f"variants of {name!r}: {known}")
    return load(info.factory, owner=f"interceptor {name!r}", extra=info.extra)(variant)
