"""The switch of this process: where a channel's calls go and where a server's port is served, decided once and said.

`shm` never falls back: over shared memory an absent engine is UNAVAILABLE, as an absent server is over gRPC. `auto`
takes shared memory where an engine is there when the channel is made, and says it when there is none. `grpc` switches
nothing. `staged` leaves it to each call: a mapped target's calls can go either way.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, TransportError
from lucky_transport_stubs.run.notice import say
from lucky_transport_stubs.run.targets import DEFAULT_TARGET, UNNAMED, TargetMap, how_to_map

MODES = ("auto", "shm", "grpc", "staged")

#: How long `auto` waits for an engine that is just starting, once per endpoint.
_MOMENT_S = 0.5


class Route(NamedTuple):
    """Where the calls to a target go: to `endpoint`, or over gRPC when that is empty, and `why`.

    `problem` is what is wrong with the endpoint that would have been taken. `is_staged`: each call goes to
    `endpoint` or over gRPC, as a router decides. `hint`: what to do where it was to be switched.
    """

    target: str
    endpoint: str
    why: str = ""
    problem: str = ""
    is_staged: bool = False
    hint: str = ""

    def __str__(self) -> str:
        if self.is_staged:
            return f"{self.target} goes to gRPC or {self.endpoint}, each method as its stage says"
        if self.endpoint:
            return f"{self.target} goes to {self.endpoint}"
        hint = self.hint and f"; {self.hint}"
        return f"{self.target} stays on gRPC: {self.why}{self.problem and f' ({self.problem})'}{hint}"


class Served(NamedTuple):
    """Where a server's `address` is served: at `endpoint` too, or over gRPC alone when that is empty, and `why`.

    only: not over gRPC.
    """

    address: str
    endpoint: str
    why: str = ""
    only: bool = False

    def stays(self, why: str) -> Served:
        """Return the same address, served over gRPC alone."""
        return Served(self.address, "", why)

    def __str__(self) -> str:
        if self.endpoint:
            return f"server {self.address} is served at {self.endpoint}{'' if self.only else ' too'}"
        return f"server {self.address} is served over gRPC only: {self.why}"


class Switch:
    """Decides for each channel and each server's port of this process. `quiet`: only a fallback is reported."""

    def __init__(self, settings: Settings, *, quiet: bool = False) -> None:
        """Raises ConfigError when the settings name no way to switch: an unknown mode, a map that cannot be read."""
        self._settings = settings
        self._map = target_map(settings)
        self._served_map = served_map(settings)
        self._quiet = quiet
        self._awaited: set[str] = set()
        self._answered: set[tuple[str, int, int]] = set()  # servers, see `_server_at`
        self._said: set[tuple[int, str, str]] = set()

    def records(self, target: str, refusal: str) -> bool:
        """True when the settings ask for a recording of all calls.

        refusal: why this process has no threads, which a recording needs; "" where it has. That is said.
        """
        if self._settings.record and refusal:
            why = f"{refusal.partition(', ')[0]}, and a recording needs its threads"
            self._say(f"calls to {target} are not recorded: {why}", f"recording {target}", "")
        return bool(self._settings.record) and not refusal

    def serve(self, address: str) -> Served:
        """Return where a server's port is served that the program binds at `address`."""
        if self._settings.transport == "grpc":
            return Served(address, "", "the transport is grpc")
        endpoint = self._served_map.endpoint_of(address)
        return Served(address, endpoint, "" if endpoint else UNNAMED, self._is_only(endpoint))

    def tell(self, served: Served) -> None:
        """Say, once, where a port is served."""
        if not self._quiet or (served.why and self._served_map.endpoint_of(served.address)):
            self._say(str(served), served.address, served.endpoint)

    def _is_only(self, endpoint: str) -> bool:
        return bool(endpoint) and self._settings.grpc_serve_only

    def _say(self, text: str, place: str, endpoint: str) -> None:
        said = (os.getpid(), place, endpoint)  # a forked child has its own channels and servers
        if said not in self._said:
            self._said.add(said)
            say(text)

    def route(self, target: str, refusal: str = "") -> Route:
        """Return where a channel to `target` leads; with `auto` this may take a moment.

        refusal: why this channel cannot go through shared memory, "" where it can.
        """
        route = self._decide(target, refusal)
        if route.problem or not self._quiet:
            self._say(str(route), target, route.endpoint)
        return route

    def _decide(self, target: str, refusal: str) -> Route:
        if self._settings.transport == "grpc":
            return Route(target, "", "the transport is grpc")
        endpoint = self._map.endpoint_of(target)
        if not endpoint:
            asked = self._settings.transport == "shm"
            return Route(target, "", UNNAMED, hint=how_to_map(target, self._map.only_endpoint) if asked else "")
        if refusal:
            return Route(target, "", refusal, f"it would go to {endpoint}")
        if self._settings.transport == "staged":
            return Route(target, endpoint, is_staged=True)
        problem = self._problem(endpoint) if self._settings.transport == "auto" else ""
        return Route(target, "", f"no server or engine at {endpoint}", problem) if problem else Route(target, endpoint)

    def _problem(self, endpoint: str) -> str:
        """Return why no engine can be used at an endpoint now, "" when one can."""
        import asyncio  # the launcher, which reads the maps here, needs none of these

        from lucky_transport.deadline import Deadline
        from lucky_transport.shm.files.socket_path import is_served_here
        from lucky_transport.shm.listener.connecting import connect_pipe

        moment = Deadline(0.0 if endpoint in self._awaited else _MOMENT_S)
        self._awaited.add(endpoint)
        try:
            name = Endpoint.parse(endpoint).address
            server = _server_at(name)
            if server in self._answered:  # it lives; a program may make a channel for each call
                return ""
            # An event loop that asks cannot answer itself.
            if asyncio._get_running_loop() is None or not is_served_here(name):
                connect_pipe(name, moment, answer_s=_MOMENT_S, or_server=True).close()
                if server is not None:
                    self._answered.add(server)
        except (TransportError, OSError) as error:
            return str(error)
        return ""


def _server_at(name: str) -> tuple[str, int, int] | None:
    """Return what tells the living server of that name from those before and after it, None where there is none."""
    from lucky_transport.shm.files.socket_path import live_socket

    try:
        if (path := live_socket(name)) is not None:
            status = path.stat()
            return str(path), status.st_ino, status.st_ctime_ns
    except FileNotFoundError:  # it has just ended
        pass
    return None


def target_map(settings: Settings) -> TargetMap:
    """Return the map in force.

    Raises ConfigError when it cannot be read, when nothing says where the engine is, and for `staged` without a router.
    """
    if settings.transport not in MODES:
        source = settings.sources.get("transport", "default")
        raise ConfigError(
            f"{source}: transport = {settings.transport!r}", hint=f"gRPC can be switched to: {', '.join(MODES)}"
        )
    if settings.transport == "grpc":
        return TargetMap(())
    if settings.transport == "staged":
        from lucky_transport_stubs.staged.router import find_router

        find_router()
    pairs = settings.grpc_map.split()
    endpoint = settings.endpoint or (f"shm://{settings.shm_name}" if settings.shm_name else "")
    if endpoint and not pairs:
        pairs = [f"{DEFAULT_TARGET}={endpoint}"]
    pairs += settings.grpc_serve.split()  # what the program serves it also finds there
    if not pairs:
        raise ConfigError(
            "nothing says where the engine is", hint="give --endpoint shm://NAME (LUCKY_ENDPOINT), or a map"
        )
    return TargetMap(pairs)


def served_map(settings: Settings) -> TargetMap:
    """Return the map of what servers bind to where they are served: that of the channels unless there is another.

    Raises ConfigError as `target_map` does.
    """
    return TargetMap(settings.grpc_serve.split()) if settings.grpc_serve else target_map(settings)
