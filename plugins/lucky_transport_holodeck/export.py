"""`lucky-transport export-holodeck`: a world package that the `holodeck` package starts our engine from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

__all__ = ["export_holodeck"]


@click.command(
    "export-holodeck",
    epilog="\b\nExample:\n"
    "  export HOLODECKPATH=$PWD/holodeck\n"
    '  lucky-transport export-holodeck toy "$HOLODECKPATH/0.3.1/worlds" --num-envs 2\n'
    "  python -c \"import holodeck; print(holodeck.make('toy-Batch').reset())\"",
)
@click.argument("engine")
@click.argument("worlds", type=click.Path(file_okay=False, path_type=Path))
@click.option("--num-envs", default=1, show_default=True, type=click.IntRange(min=1), help="Envs, each an agent.")
@click.option("--seed", type=int, help="Seed of the engine.")
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine's constructor, as a JSON object.")
def export_holodeck(engine: str, worlds: Path, num_envs: int, seed: int | None, options: str) -> None:
    """Write a package of ENGINE (for instance toy) into WORLDS, the folder `worlds` of a Holodeck installation.

    Prints the scenario's name, for `holodeck.make`.
    """
    try:
        values: Any = json.loads(options)
    except ValueError as error:
        raise click.BadParameter(f"{options!r} is no JSON ({error})", param_hint="'--options'") from error
    if not isinstance(values, dict):
        raise click.BadParameter(f"{options!r} is no JSON object", param_hint="'--options'")
    from lucky_transport import api
    from lucky_transport_holodeck.package import write_package

    made = api.make_engine(engine, num_envs, seed=seed, **values)
    try:
        click.echo(write_package(worlds, engine, made.spec, num_envs=num_envs, seed=seed, options=values))
    finally:
        made.close()
