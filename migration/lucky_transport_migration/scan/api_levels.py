"""Which API level ("door" in what users read) fits a place, and why.

    1   unchanged under `lucky-transport run`, or a drop-in channel or server: code that uses gRPC's API
    2   typed calls, `connect()`: services of LuckyEngine; nothing of gRPC stays
    3   the env, `make()`: programs that step

It is the furthest that fits, because at level 1 gRPC's package stays installed. A channel and an import go where the
stubs of their file go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lucky_transport_migration.scan.findings import Finding, GrpcUse, Kind
from lucky_transport_migration.scan.known import DROP_INS, LUCKYROBOTS, PORT, luckyrobots_class, service_of

__all__ = ["judge"]

_LUCKYROBOTS = {
    "LuckyEnv": (3, "it steps one agent over gRPC; make() steps the whole batch (`scan --fix` gives the same env)"),
    "PolicyEnv": (3, "it steps one agent over gRPC; make() steps the whole batch"),
    "LuckyEngineClient": (2, "connect() has the same calls, typed: client.scene, client.agent, ..."),
    "Session": (2, "connect() has the same calls, typed; `lucky-transport serve` starts an engine"),
    "AsyncSession": (2, "connect_async() has the same calls, typed, for asyncio"),
}
_STEPPING = (3, "the agent's stub steps one agent a call; make() steps the whole batch in shared memory")
_OWN_SERVICE = (1, "a service of your own: its stub runs over a drop-in channel as it is")
_OTHERS: dict[Kind, tuple[int, str]] = {
    "import": (1, "it runs as it is under `lucky-transport run`"),
    "channel": (1, "its stubs stay as they are: `lucky-transport run` or lucky_transport_stubs.channel"),
    "server": (1, "lucky_transport_stubs.server takes its place, beside it or instead"),
    "servicer": (1, "a servicer can be added to lucky_transport_stubs.server as it is"),
    "dependency": (2, "goes when nothing imports it; behind door 1 it has to stay"),
    "build": (2, "goes when no stub is left; typed calls need no generated code"),
}


def judge(path: str, places: Iterable[GrpcUse], *, steps: bool = False) -> list[Finding]:
    """Return the findings of one file. steps: the file calls a stub's `Step`."""
    found = list(places)
    services = [service_of(place.symbol) for place in found if place.kind == "stub"]
    return [
        Finding(path, place.line, place.kind, place.symbol, *_door(place, services, steps=steps)) for place in found
    ]


def _door(place: GrpcUse, services: Sequence[str | None], *, steps: bool) -> tuple[int, str]:
    own = luckyrobots_class(place.symbol)
    if own is not None or place.symbol == LUCKYROBOTS:
        return _LUCKYROBOTS.get(own or "", (2, "the package is a gRPC client; connect() has the same calls, typed"))
    if place.kind == "stub":
        return _door_of_stub(service_of(place.symbol), steps=steps)
    if place.kind in ("channel", "import") and services and None not in services:
        return 2, f"all stubs of this file are of the engine's services ({_listed(services)}): connect() has them typed"
    if place.symbol.partition(".")[0] == DROP_INS:
        return 1, "a drop-in: gRPC's package stays installed until its stubs are gone"
    if place.symbol == f"port {PORT}" or place.symbol.endswith(f":{PORT}"):
        return 1, "gRPC's port: `lucky-transport run` maps it, an endpoint such as shm://name takes its place"
    if place.kind == "channel" and re.match(r"grpc(\+unix)?://", place.symbol):
        return 2, "an endpoint of gRPC: give the one of shared memory, shm://name"
    return _OTHERS[place.kind]


def _door_of_stub(service: str | None, *, steps: bool) -> tuple[int, str]:
    if service is None:
        return _OWN_SERVICE
    if service == "AgentService" and steps:
        return _STEPPING
    return 2, f"connect() has {service} typed"


def _listed(services: Sequence[str | None]) -> str:
    return ", ".join(sorted({service for service in services if service}))
