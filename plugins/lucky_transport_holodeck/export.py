"""`lucky-transport export-holodeck`: a world package that the `holodeck` package starts our engine from."""

from __future__ import annotations

from pathlib import Path

import click

from lucky_transport.cli.serve import options_of

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
    from lucky_transport import api
    from lucky_transport_holodeck.package import write_package

    values = options_of(options)
    made = api.make_engine(engine, num_envs, seed=seed, **values)
    try:
        scenario = write_package(worlds, engine, made.spec, num_envs=num_envs, seed=seed, options=values)
    except OSError as error:
        raise click.ClickException(f"the package cannot be written into {worlds}: {error.strerror}") from error
    finally:
        made.close()
    click.echo(scenario)
