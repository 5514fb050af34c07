"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import EngineInfo, hookimpl


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="mujoco",
            factory="lucky_transport_mujoco.engine:make_engine",
            summary="MuJoCo physics: a quadruped with 12 actuators that tracks velocity commands",
            variants=("quadruped", "quadruped-walk"),
            extra="mujoco",
        )
    ]
