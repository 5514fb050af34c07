"""`lucky-transport record`: what a program does with an engine, written to a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from lucky_transport.cli.completion import complete_endpoints

#: As a shell says that there is no such program, and that one cannot be run.
_NO_PROGRAM, _NO_EXECUTABLE = 127, 126


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport record shm://demo --out run.jsonl.gz --seed 7 -- python train.py\n"
    "  lucky-transport record shm://demo --out run.jsonl.gz -- \\\n"
    "      lucky-transport run --transport staged --endpoint shm://demo -- python existing_grpc_client.py"
)
@click.argument("endpoint", shell_complete=complete_endpoints)
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file; compressed if it is a .gz."
)
@click.option("--seed", type=click.IntRange(min=0), help="The seed that the engine was started with, for its replay.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(endpoint: str, out: Path, seed: int | None, command: tuple[str, ...]) -> None:
    """Run COMMAND and write what it does with the engine at ENDPOINT to a file: calls, streams and steps, and answers.

    A program that uses make() or connect() is recorded as it is: ENDPOINT is its default endpoint (LUCKY_ENDPOINT), and
    whatever else it connects to is recorded as well (LUCKY_RECORD). A program with gRPC stubs is recorded under
    `lucky-transport run`, over whichever transport that gives it; one that uses nothing else needs only
    `lucky-transport run --transport grpc --record FILE -- COMMAND`. Each process and each engine has a file of its own,
    the first one that name; none is overwritten. COMMAND takes our place.

    `lucky-transport replay` makes the calls again on a fresh engine and compares; `lucky-transport parity` compares two
    engines without a recording.
    """
    from lucky_transport.config import environment
    from lucky_transport.endpoint import Endpoint
    from lucky_transport.errors import ConfigError
    from lucky_transport_migration.recording.recorded_transport import recorded_endpoint

    Endpoint.parse(endpoint)
    if out.exists():
        raise ConfigError(f"{out} is there already", hint="name another file, or remove it")
    to = str(recorded_endpoint(endpoint, out.absolute(), seed))
    variables = {"LUCKY_ENDPOINT": to, "LUCKY_RECORD": str(out.absolute()), "LUCKY_TRANSPORT": ""}
    try:
        os.execvpe(command[0], list(command), environment() | variables)
    except OSError as error:
        click.echo(f"Error: {command[0]!r} cannot be run: {error}", err=True)
        sys.exit(_NO_PROGRAM if isinstance(error, FileNotFoundError) else _NO_EXECUTABLE)
