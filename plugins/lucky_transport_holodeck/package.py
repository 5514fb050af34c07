"""A world package around an engine of ours, as the `holodeck` package looks for it.

    WORLDS/lucky_toy/config.json            which worlds it has, and its binary
    WORLDS/lucky_toy/toy-Batch.json         the scenario: every env an agent
    WORLDS/lucky_toy/engine.sh              the binary: serves the engine for the client that starts it

An agent is of the smallest type whose action has room for the engine's; it observes through a range finder with as many
lasers as an observation has numbers, and its task shows reward and terminal.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part
from lucky_transport_holodeck.agent_types import fitting_type

__all__ = ["scenario_of", "write_package"]

_SENSOR, _TASK = "RangeFinderSensor", "DistanceTask"

_BINARY = """\
#!/bin/sh
uuid=
for argument; do
    case $argument in --HolodeckUUID=*) uuid=${{argument#*=}} ;; esac
done
exec {serve} --endpoint "holodeck://$uuid?for=client" --parent-pid $PPID
"""


def scenario_of(spec: BatchSpec, world: str) -> dict[str, Any]:
    """Return the scenario of all envs of `spec`, JSON values; raises SpecError when an action fits no agent."""
    size = _elements(spec.action, spec.action_parts)
    kind = fitting_type(size)
    sizes = [scheme.size for scheme in kind.schemes]
    lasers = _elements(spec.observation, spec.observation_parts)
    agents = [
        {
            "agent_name": f"agent_{env}",
            "agent_type": kind.scenario_name,
            "control_scheme": sizes.index(kind.action_size),
            "sensors": [
                {"sensor_type": _SENSOR, "configuration": {"LaserCount": lasers}},
                {"sensor_type": _TASK},
            ],
        }
        for env in range(spec.num_envs)
    ]
    return {"name": "Batch", "world": world, "main_agent": "agent_0", "agents": agents}


def _elements(array: ArraySpec, parts: tuple[Part, ...]) -> int:
    return sum(part.array.size for part in parts) if parts else array.size


def write_package(
    worlds: Path, engine: str, spec: BatchSpec, *, num_envs: int, seed: int | None, options: Mapping[str, Any]
) -> str:
    """Write the package into the folder `worlds` and return its scenario's name, for `holodeck.make`."""
    world = engine.replace(":", "_")
    folder = worlds / f"lucky_{world}"
    folder.mkdir(parents=True, exist_ok=True)
    serve = [sys.executable, "-m", "lucky_transport", "serve", engine, "--num-envs", str(num_envs)]
    serve += ["--options", json.dumps(dict(options))] if options else []
    serve += ["--seed", str(seed)] if seed is not None else []
    binary = folder / "engine.sh"
    binary.write_text(_BINARY.format(serve=shlex.join(serve)), encoding="utf-8")
    binary.chmod(0o755)
    config = {
        "name": folder.name,
        "platform": "Linux",
        "version": "1",
        "path": binary.name,
        "worlds": [{"name": world, "pre_start_steps": 0}],
    }
    scenario = scenario_of(spec, world)
    _write(folder / "config.json", config)
    _write(folder / f"{world}-{scenario['name']}.json", scenario)
    return f"{world}-{scenario['name']}"


def _write(path: Path, plain: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
