"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import EngineInfo, TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="openra",
            schemes=("openra",),
            client="lucky_transport_openra.client:connect",
            server="lucky_transport_openra.server:server",
            summary="OpenRA-RL's bridge service over gRPC: sessions that advance on demand or run freely",
            local_endpoint="openra://127.0.0.1:0",
            extra="openra",
        )
    ]


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="skirmish",
            factory="lucky_transport_openra.skirmish.world:make_engine",
            summary="a small real-time strategy game: economy, orders, fog, a scripted opponent; sessions, or a batch",
            variants=("plains", "ridge", "arena"),
            worlds="lucky_transport_openra.skirmish.world:SkirmishWorlds",
        ),
    ]
