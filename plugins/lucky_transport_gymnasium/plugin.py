"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import EngineInfo, hookimpl


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="gymnasium",
            factory="lucky_transport_gymnasium.engine:make_engine",
            summary="any registered Gymnasium env, as gymnasium:<id>",
        )
    ]
