"""`lucky-transport serve`: runs an engine at one or several endpoints until a signal ends it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, cast

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.deadline import log_long_wait
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import SpecError, TransportError
from lucky_transport.found_file import working_directory
from lucky_transport.nesting import json_object


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport serve toy --endpoint shm://demo --endpoint grpc://127.0.0.1:0 --num-envs 16\n"
    "  lucky-transport serve mujoco:quadruped --endpoint shm://robots --num-envs 64 --seed 1\n"
    '  lucky-transport serve toy --endpoint shm://big --options \'{"obs_size": 100, "act_size": 12}\'\n'
    "  lucky-transport serve toy --endpoint shm://demo --without CameraService,Lidar* --fps TelemetryService=10\n"
    "  lucky-transport serve cartpole --endpoint 'pipe://train?slots=4'"
)
@click.argument("engine", shell_complete=complete_engines)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    required=True,
    metavar="ENDPOINT",
    help="Where to serve, e.g. shm://demo or grpc://127.0.0.1:0 (a free port); may be given repeatedly.",
)
@click.option("--num-envs", default=1, show_default=True, type=click.IntRange(min=1), help="Envs stepped together.")
@click.option("--seed", type=int, help="Seed of the engine.")
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine's constructor, as a JSON object.")
@click.option("--wait", type=click.Choice(["spin", "adaptive", "block"]), help="How the shm server waits for actions.")
@click.option(
    "--observation-slots",
    type=click.IntRange(1, 64),
    help="How many frames' observations a shm client may look at at once.",
)
@click.option(
    "--max-message-bytes",
    type=click.IntRange(1, 2147483648),
    metavar="BYTES",
    help="The longest message that the engine takes; 4194304 unless a setting says otherwise.",
)
@click.option("--services", multiple=True, metavar="NAME,...", help="Answer only these services; names or patterns.")
@click.option("--without", multiple=True, metavar="NAME,...", help="Answer all services but these.")
@click.option(
    "--fps", multiple=True, metavar="NAME=RATE,...", help="The most items a second of streams, e.g. CameraService=10."
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="A host name that openenv:// answers to; repeatable.")
@click.option(
    "--allow-origin", multiple=True, metavar="ORIGIN", help="A web origin that may call openenv://; repeatable."
)
@click.option("--interceptor", "interceptors", multiple=True, hidden=True, help="In place of those of the settings.")
@click.option("--parent-pid", type=int, hidden=True, help="End when this process ends.")
@click.option("--status-fd", type=int, hidden=True, help="Report there whether it is ready, instead of printing.")
def serve(
    engine: str,
    endpoints: tuple[str, ...],
    num_envs: int,
    seed: int | None,
    options: str,
    wait: str | None,
    observation_slots: int | None,
    max_message_bytes: int | None,
    services: tuple[str, ...],
    without: tuple[str, ...],
    fps: tuple[str, ...],
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    interceptors: tuple[str, ...],
    parent_pid: int | None,
    status_fd: int | None,
) -> None:
    """Run ENGINE (for instance toy or mujoco:quadruped) and let clients drive it.

    gymnasium:MODULE:ID finds a module in the working folder too.

    `lucky-transport services` changes what --services, --without and --fps say while it runs.

    Prints `ready URL` per endpoint once it accepts clients there. SIGTERM or Ctrl-C end it cleanly.
    """
    if status_fd is not None:
        cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)  # as at a terminal
    with Shutdown(parent_pid) as shutdown:
        engine_options = options_of(options)
        if working_directory() not in sys.path:  # last: a module of the engine's user is found, and shadows none
            sys.path.append(working_directory())
        if shutdown.asked.is_set():
            return
        from lucky_transport import api
        from lucky_transport.process import report

        settings = {
            "wait": wait,
            "observation_slots": observation_slots,
            "max_message_bytes": max_message_bytes,
            "services": ",".join(services) or None,
            "without_services": ",".join(without) or None,
            "stream_fps": ",".join(fps) or None,
            "allow_host": allow_host or None,
            "allow_origin": allow_origin or None,
            "interceptors": interceptors or None,
        }
        try:
            # a parent process logs its own wait
            with log_long_wait(f"engine {engine!r} to start", None if status_fd is None else 0.0):
                serving = api.serve(
                    engine,
                    endpoints,
                    num_envs=num_envs,
                    seed=seed,
                    options=engine_options,
                    **settings,
                )
        except TransportError as error:
            if status_fd is None:
                raise
            report(status_fd, error)
            sys.exit(1)
        is_seen = parent_pid is None and sys.stderr.isatty()
        with serving:
            _tell_ready(serving.endpoints, status_fd, is_seen)
            shutdown.wait()
        if is_seen:
            click.echo("stopped", err=True)


def _tell_ready(endpoints: Sequence[Endpoint], status_fd: int | None, is_seen: bool) -> None:
    """Say where the engine is served. is_seen: to a user at the terminal."""
    from lucky_transport.process import report

    if status_fd is not None:
        report(status_fd, endpoints)
        return
    for endpoint in endpoints:
        click.echo(f"ready {endpoint}")
    if is_seen:
        click.echo(_what_next(str(endpoints[0])), err=True)


def _what_next(endpoint: str) -> str:
    """Return the next commands for the user at the terminal."""
    return (
        f"  connect: lucky_transport.make(endpoint={endpoint!r}), or LUCKY_ENDPOINT={endpoint} python train.py\n"
        f"  inspect: lucky-transport inspect {endpoint}\n"
        "  stop:    Ctrl-C"
    )


def options_of(text: str) -> dict[str, Any]:
    """Return the engine's options; raises BadParameter naming what is wrong with the JSON."""
    try:
        return json_object(text, "the value")
    except SpecError as error:
        raise click.BadParameter(str(error), param_hint="'--options'") from error
