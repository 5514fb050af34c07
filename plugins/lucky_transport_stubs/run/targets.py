"""Targets as gRPC spells them, and the map from targets to endpoints.

    127.0.0.1:50051   localhost:50051   [::1]:50051   dns:///robot:50051   ipv4:10.0.0.7:50051   unix:///run/engine.sock

Every spelling of one place is one target: 127.0.0.1, ::1 and unspecified addresses are all `localhost`, while another
address of 127/8 is a place of its own. A path is what it leads to now, so `unix:engine.sock` is another place in
another folder; a pattern may name either. The first pair of a map that fits decides.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError

#: Where luckyrobots, and so its users' programs, look for the engine.
DEFAULT_TARGET = "localhost:50051"

#: Why a target stays on gRPC that no pair of the map fits.
UNNAMED = "the map does not name it"

#: What `localhost` is; other addresses of 127/8 can have servers of their own at the same port.
_LOCALHOST = ("127.0.0.1", "::1")

#: What gRPC takes for a target without a port.
_DEFAULT_PORT = "443"

#: Schemes whose rest is no host: kept as one name.
_PATHS = ("unix", "unix-abstract", "vsock", "xds")
_SCHEMES = (*_PATHS, "ipv4", "ipv6", "dns")

_REMEDY = "write HOST:PORT=ENDPOINT, e.g. 127.0.0.1:50051=shm://demo or '*=shm://engine_{port}'"


class Target(NamedTuple):
    """A place in canonical spelling. Of what is no host and port (`unix:/run/x`), `host` is all and `port` is empty."""

    host: str
    port: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return f"{host}:{self.port}" if self.port else host


@lru_cache(maxsize=256)  # a program may make a channel for each call
def parse_target(text: str) -> tuple[Target, ...]:
    """Return the places a target names; `ipv4:` and `ipv6:` can name several. Any text is a target, as in gRPC."""
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if colon and scheme in _PATHS:
        return (Target(f"{scheme}:{_without_authority(rest) if scheme == 'unix' else rest}"),)
    if colon and scheme in ("ipv4", "ipv6"):
        return tuple(_place(unquote(address)) for address in rest.lstrip("/").split(","))
    if colon and scheme == "dns":
        return (_place(unquote(_without_authority(rest).lstrip("/"))),)
    return (_place(text.strip()),)


def authority_of(target: str) -> str:
    """Return the authority of a target as gRPC has it: what names the place in its URL, quoted."""
    scheme, colon, rest = target.partition(":")
    is_url = bool(colon) and scheme.lower() in _SCHEMES
    path = _without_authority(rest) if is_url else target
    return quote(path.removeprefix("/"), safe="-._~!$&'()*+,;=:@[]")


def canonical(target: str) -> str:
    """Return a target as gRPC's channels name it: one without a scheme is resolved by DNS."""
    return target if target.partition(":")[0].lower() in _SCHEMES else f"dns:///{target}"


def how_to_map(target: str, endpoint: str = "") -> str:
    """Return the option of `lucky-transport run` that switches a target; endpoint: where the others lead, if to one."""
    pair = f"{target}={endpoint or 'shm://NAME'}"
    return f"to switch it, add --map {shlex.quote(pair)}"


def with_port(address: str, port: int) -> str:
    """Return a server's address with the number that its port 0 became; one without port 0 as it is."""
    host, colon, asked = address.rpartition(":")
    return f"{host}:{port}" if colon and asked == "0" else address


def _without_authority(rest: str) -> str:
    """Return what stands behind `//authority` in a URL without its scheme: `//8.8.8.8/host:1` is `/host:1`."""
    if not rest.startswith("//"):
        return rest
    _, slash, path = rest[2:].partition("/")
    return slash + path


def _place(text: str) -> Target:
    bracketed = re.fullmatch(r"\[(.*)\](?::(.*))?", text)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:  # a bare IPv6 address, or a name without a port
        host, port = text, ""
    return Target(_host(host), port or _DEFAULT_PORT)


def _host(name: str) -> str:
    if not name:  # ":50051" is every address of this host
        return "localhost"
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name.lower()
    address = getattr(address, "ipv4_mapped", None) or address
    return "localhost" if address.is_unspecified or str(address) in _LOCALHOST else str(address)


def _real(host: str) -> str:
    """Return a path by which every program means the same socket, wherever it runs; any other host as it is."""
    path = host.removeprefix("unix:")
    with suppress(FileNotFoundError):  # a working directory that is gone leads to no socket
        return host if path == host else f"unix:{os.path.realpath(path)}"
    return host


class _Pair(NamedTuple):
    host: re.Pattern[str]
    port: re.Pattern[str]
    endpoint: str

    def endpoint_of(self, target: Target) -> str:
        """Return the endpoint of a target, "" when the pattern does not fit."""
        place = _real(target.host)
        hosts = (place, target.host, *(_LOCALHOST if place == "localhost" else ()))
        if not any(map(self.host.fullmatch, hosts)) or not self.port.fullmatch(target.port):
            return ""
        host, port = (re.sub(r"[^\w.-]", "_", part) for part in (place, target.port))
        return self.endpoint.replace("{host}", host).replace("{port}", port)


class TargetMap:
    """Which targets are switched, and to which endpoints."""

    def __init__(self, pairs: Sequence[str]) -> None:
        """Read pairs `PATTERN=ENDPOINT`.

        `*` in a pattern stands for anything, alone for every target. `{host}` and `{port}` in an endpoint stand for the
        target's own. Raises ConfigError for a pair that cannot be read and an endpoint that is not `shm://NAME`.
        """
        self._pairs = [pair for text in pairs for pair in _read(text)]

    @property
    def only_endpoint(self) -> str:
        """The endpoint that all pairs lead to, "" when there are several or it depends on the target."""
        found = {pair.endpoint for pair in self._pairs}
        only = found.pop() if len(found) == 1 else ""
        return "" if "{" in only else only

    def endpoint_of(self, target: str) -> str:
        """Return where a target is found, "" when it is not switched: no pair fits, or its places part ways."""
        found = {self._endpoint_of(place) for place in parse_target(target)}
        return found.pop() if len(found) == 1 else ""

    def _endpoint_of(self, place: Target) -> str:
        return next((endpoint for pair in self._pairs if (endpoint := pair.endpoint_of(place))), "")


def _read(text: str) -> list[_Pair]:
    pattern, equals, endpoint = text.partition("=")
    if not equals or not pattern or not endpoint:
        raise ConfigError(f"target map: {text!r} is no pair", hint=_REMEDY)
    sample = Endpoint.parse(endpoint.replace("{host}", "localhost").replace("{port}", "1"))
    if sample.scheme != "shm" or not sample.address or "{" in sample.address or "}" in sample.address:
        hint = "write one, e.g. shm://demo, or for many targets shm://engine_{port}"
        raise ConfigError(f"{endpoint!r} is not an endpoint shm://NAME", hint=hint)
    places = (Target("*", "*"),) if pattern == "*" else parse_target(pattern)
    return [_Pair(_glob(place.host), _glob(place.port), endpoint) for place in places]


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
