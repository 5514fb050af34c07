"""`lucky-transport export-libenv`: an engine as a shared library for gym3 and other hosts of libenv."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.serve import options_of


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport export-libenv toy --output libtoy.so\n"
    "  lucky-transport export-libenv gymnasium:CartPole-v1 --output envs/libcartpole.so\n"
    "  lucky-transport export-libenv toy --output libtoy.so --options '{\"episode_steps\": 50}'\n"
    "  python -c \"from gym3.libenv import CEnv; print(CEnv(num=4, lib_dir='.', lib_name='toy'))\""
)
@click.argument("engine", shell_complete=complete_engines)
@click.option("--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="libNAME.so to write.")
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine; the library's host may add more.")
@click.option(
    "--python",
    default=sys.executable,
    show_default="this one",
    help="The interpreter that runs the engine; lucky-transport has to be installed there.",
)
@click.option("--no-check", is_flag=True, help="Do not make the engine once, to see whether libenv can carry it.")
def export_libenv(engine: str, output: Path, options: str, python: str, no_check: bool) -> None:
    """Write a shared library that is ENGINE (for instance toy or gymnasium:CartPole-v1) for any host of libenv.

    Each env of the library starts an engine process of its own, with as many envs as its host asks for.
    """
    from lucky_transport import api
    from lucky_transport_libenv.export.build import build
    from lucky_transport_libenv.export.tensors import tensors_of

    engine_options = options_of(options)
    tensors = []
    if not no_check:
        made = api.make_engine(engine, 2, **engine_options)
        try:
            tensors = tensors_of(made.spec)
        finally:
            made.close()
    build(engine, output, options=engine_options, python=python)
    for tensor in tensors:
        click.echo(f"{tensor.space.name.lower():12} {tensor.name}: {tensor.dtype.name.lower()} {list(tensor.shape)}")
    click.echo(f"wrote {output}")
