"""Which API level fits a place, and why.

    1   unchanged under `lucky-transport run`, or a drop-in channel or server: code that uses gRPC's API
    2   typed calls, `connect()`: services of LuckyEngine; nothing of gRPC stays
    3   the env, `make()`: programs that step

It is the furthest that fits, because at level 1 gRPC's package stays installed. A channel and an import go where the
stubs of their file go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lucky_transport_migration.scan.findings import Finding, GrpcUse, Kind
from lucky_transport_migration.scan.known import (
    BASES,
    DROP_INS,
    LUCKYROBOTS,
    PORT,
    PORT_BINDERS,
    SERVERS,
    is_grpc_module,
    is_stub_module,
    luckyrobots_class,
    other_stack,
    service_of,
)

_LUCKYROBOTS = {
    "LuckyEnv": (3, "it steps one agent over gRPC; make() steps the whole batch (`scan --fix` gives the same env)"),
    "PolicyEnv": (3, "it steps one agent over gRPC; make() steps the whole batch"),
    "LuckyEngineClient": (2, "connect() has the same calls, typed: client.scene, client.agent, ..."),
    "Session": (2, "connect() has the same calls, typed; `lucky-transport serve` starts an engine"),
    "AsyncSession": (2, "connect_async() has the same calls, typed, for asyncio"),
}
_ENDPOINT = ("grpc://", "grpc+unix://")
_STEPPING = (3, "the agent's stub steps one agent a call; make() steps the whole batch in shared memory")
_OWN_SERVICE = (1, "a service without typed calls: its stub runs over a drop-in channel as it is")
_GRPCS_SERVICE = (1, "a service of gRPC itself: its stub runs over a drop-in channel as it is")
_OTHERS: dict[Kind, tuple[int, str]] = {
    "import": (1, "it runs as it is under `lucky-transport run`"),
    "channel": (1, "its stubs stay as they are: `lucky-transport run` or lucky_transport_stubs.channel"),
    "server": (1, "lucky_transport_stubs.server takes its place, beside it or instead"),
    "servicer": (1, "a servicer can be added to lucky_transport_stubs.server as it is"),
    "interceptor": (1, "it runs as it is: lucky_transport_stubs and `lucky-transport run` call gRPC's interceptors"),
    "dependency": (2, "goes when nothing imports it; at level 1 it has to stay"),
    "build": (2, "goes when no stub is left; typed calls need no generated code"),
}


def judge(path: str, places: Iterable[GrpcUse], *, steps: bool = False, foreign: Collection[str] = ()) -> list[Finding]:
    """Return the findings of one file.

    steps: the file calls a stub's `Step`. foreign: names of services that mean another service than the engine's.
    """
    found = list(places)
    stack = next(filter(None, (other_stack(place.symbol) for place in found)), "")
    services = [service_of(place.symbol, foreign) for place in found if place.kind == "stub"]
    if any(place.kind in ("server", "servicer") or place.symbol.endswith("ServerInterceptor") for place in found):
        services.append(None)  # what it serves needs gRPC's package, whatever it calls
    servers = [place.symbol for place in found if place.symbol in SERVERS]
    serves_shm = bool(servers) and all(map(_is_drop_in, servers))
    if any(_is_drop_in(place.symbol) and place.kind != "import" for place in found):  # its import says nothing more
        found = [place for place in found if place.kind != "import" or not _is_drop_in(place.symbol)]
    return [
        Finding(
            *(path, place.line, place.kind, place.symbol),
            *_level(place, services, foreign, stack, steps=steps),
            wire=_is_on_wire(place, serves_shm=serves_shm),
        )
        for place in found
    ]


def _is_drop_in(symbol: str) -> bool:
    return symbol.partition(".")[0] == DROP_INS


def _is_on_wire(place: GrpcUse, *, serves_shm: bool) -> bool:
    """True where calls go over gRPC's wire. serves_shm: every server that the file makes is a drop-in."""
    if place.kind == "build":
        return place.symbol.startswith(("port ", "LUCKY_TRANSPORT", *_ENDPOINT))
    if place.kind not in ("channel", "server") or _is_drop_in(place.symbol) or BASES.match(place.symbol):
        return False
    return not (place.symbol in PORT_BINDERS and serves_shm)


def _level(
    place: GrpcUse, services: Sequence[str | None], foreign: Collection[str], stack: str, *, steps: bool
) -> tuple[int, str]:
    own = luckyrobots_class(place.symbol)
    if own is not None or place.symbol == LUCKYROBOTS:
        return _LUCKYROBOTS.get(own or "", (2, "the package is a gRPC client; connect() has the same calls, typed"))
    is_stacks = place.kind in ("stub", "servicer") and not is_stub_module(place.symbol)
    if place.kind not in ("dependency", "build") and (
        other := other_stack(place.symbol) or (stack if is_stacks else "")
    ):
        return 1, f"it stays on gRPC: `lucky-transport run` does not move {other}, only what is generated for grpcio"
    if place.kind == "stub":
        return _level_of_stub(place.symbol, service_of(place.symbol, foreign), steps=steps)
    if place.kind == "import" and _has_no_twin(place.symbol, foreign):
        return _OTHERS["import"]
    if place.symbol.startswith(_ENDPOINT):
        return 2, "an endpoint of gRPC: give the one of shared memory, shm://name"
    if place.kind in ("channel", "import") and services and None not in services:
        return 2, f"all stubs of this file are of the engine's services ({_listed(services)}): connect() has them typed"
    if _is_drop_in(place.symbol):
        return 1, "a drop-in: gRPC's package stays installed until its stubs are gone"
    if place.symbol == f"port {PORT}" or place.symbol.endswith(f":{PORT}"):
        return 1, "gRPC's port: `lucky-transport run` maps it, an endpoint such as shm://name takes its place"
    return _OTHERS[place.kind]


def _has_no_twin(module: str, foreign: Collection[str]) -> bool:
    """True for an import of what no typed call replaces: gRPC's own services, stubs of others."""
    top, _, rest = module.partition(".")
    if top != "grpc" and is_grpc_module(module):
        return True
    return rest.endswith("Stub") and service_of(module, foreign) is None


def _level_of_stub(symbol: str, service: str | None, *, steps: bool) -> tuple[int, str]:
    if service is None:
        return _GRPCS_SERVICE if is_grpc_module(symbol) else _OWN_SERVICE
    if service == "AgentService" and steps:
        return _STEPPING
    return 2, f"connect() has {service} typed"


def _listed(services: Sequence[str | None]) -> str:
    return ", ".join(sorted({service for service in services if service}))
