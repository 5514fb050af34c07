"""`lucky-transport export-holodeck`: a world package that the `holodeck` package starts our engine from.

    WORLDS/lucky_toy/config.json            which worlds it has, and its binary
    WORLDS/lucky_toy/toy-Batch.json         the scenario: every env an agent
    WORLDS/lucky_toy/engine.sh              the binary: serves the engine for the client that starts it

The command prints the scenario's name, for `holodeck.make`.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.atomic_write import write_atomically
from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.serve import options_of

if TYPE_CHECKING:  # the help of a command imports nothing heavy
    from lucky_transport.spec.array_spec import ArraySpec
    from lucky_transport.spec.batch_spec import BatchSpec
    from lucky_transport.spec.composite import Part


_SENSOR, _TASK = "RangeFinderSensor", "DistanceTask"

_BINARY = """\
#!/bin/sh
uuid=
for argument; do
    case $argument in --HolodeckUUID=*) uuid=${{argument#*=}} ;; esac
done
exec {serve} --endpoint "holodeck://$uuid?for=client" --parent-pid $PPID
"""


@click.command(
    "export-holodeck",
    epilog="\b\nExample:\n"
    "  export HOLODECKPATH=$PWD/holodeck\n"
    '  lucky-transport export-holodeck toy "$HOLODECKPATH/0.3.1/worlds" --num-envs 2\n'
    "  python -c \"import holodeck; print(holodeck.make('toy-Batch').reset())\"",
)
@click.argument("engine", shell_complete=complete_engines)
@click.argument("worlds", type=click.Path(file_okay=False, path_type=Path))
@click.option("--num-envs", default=1, show_default=True, type=click.IntRange(min=1), help="Envs, each an agent.")
@click.option("--seed", type=int, help="Seed of the engine.")
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine's constructor, as a JSON object.")
def export_holodeck(engine: str, worlds: Path, num_envs: int, seed: int | None, options: str) -> None:
    """Write a package of ENGINE (for instance toy) into WORLDS, the folder `worlds` of a Holodeck installation.

    The command prints the scenario's name, for `holodeck.make`.
    """
    from lucky_transport import api

    values = options_of(options)
    made = api.make_engine(engine, num_envs, seed=seed, **values)
    try:
        scenario = write_package(worlds, engine, made.spec, num_envs=num_envs, seed=seed, options=values)
    except OSError as error:
        raise click.ClickException(f"the package cannot be written into {worlds}: {error.strerror}") from error
    finally:
        made.close()
    click.echo(scenario)


def _scenario_of(spec: BatchSpec, world: str) -> dict[str, Any]:
    """Return the scenario of all envs of `spec`, JSON values; raises SpecError when an action fits no agent.

    An agent has the smallest type that fits. It observes through a range finder with a laser per number of an
    observation, and its task shows reward and terminal.
    """
    from lucky_transport_holodeck.agent_types import fitting_type

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
    serve = [sys.executable, "-P", "-m", "lucky_transport", "serve", engine, "--num-envs", str(num_envs)]
    serve += ["--options", json.dumps(dict(options))] if options else []
    serve += ["--seed", str(seed)] if seed is not None else []
    binary = folder / "engine.sh"
    write_atomically(binary, _BINARY.format(serve=shlex.join(serve)).encode())
    binary.chmod(0o755)
    config = {
        "name": folder.name,
        "platform": "Linux",
        "version": "1",
        "path": binary.name,
        "worlds": [{"name": world, "pre_start_steps": 0}],
    }
    scenario = _scenario_of(spec, world)
    _write(folder / "config.json", config)
    _write(folder / f"{world}-{scenario['name']}.json", scenario)
    return f"{world}-{scenario['name']}"


def _write(path: Path, plain: Mapping[str, Any]) -> None:
    write_atomically(path, f"{json.dumps(plain, indent=2)}\n".encode())
