"""`lucky-transport serve`: an engine at one or several endpoints until it is told to stop."""

from __future__ import annotations

import json
import os
import select
import signal
from types import FrameType
from typing import Any, cast

import click

__all__ = ["serve"]


@click.command()
@click.argument("engine")
@click.option("--endpoint", "endpoints", multiple=True, required=True, help="URL to serve at; may be given repeatedly.")
@click.option("--num-envs", default=1, show_default=True, type=click.IntRange(min=1), help="Envs stepped together.")
@click.option("--seed", type=int, help="Seed of the engine.")
@click.option("--options", default="{}", help="Options of the engine's constructor, as a JSON object.")
@click.option("--wait", type=click.Choice(["spin", "adaptive", "block"]), help="How the shm server waits for actions.")
@click.option("--parent-pid", type=int, hidden=True, help="End when this process ends.")
def serve(
    engine: str,
    endpoints: tuple[str, ...],
    num_envs: int,
    seed: int | None,
    options: str,
    wait: str | None,
    parent_pid: int | None,
) -> None:
    """Run ENGINE (for instance toy or mujoco:quadruped) and let clients drive it.

    Prints `ready ENDPOINT` per endpoint once it accepts clients. SIGTERM or Ctrl-C end it cleanly.

    Example: lucky-transport serve toy --endpoint shm://demo --endpoint grpc://127.0.0.1:0 --num-envs 16
    """
    from lucky_transport import api

    stop_reader, stop_writer = os.pipe()

    def stop(number: int, frame: FrameType | None) -> None:
        os.write(stop_writer, b".")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        engine_options: Any = json.loads(options)
        if not isinstance(engine_options, dict):
            raise ValueError("not a JSON object")
    except ValueError as error:
        raise click.BadParameter(f"{options!r}: {error}", param_hint="--options") from error
    with api.serve(
        engine, endpoints, num_envs=num_envs, seed=seed, options=cast(dict[str, Any], engine_options), wait=wait
    ) as serving:
        for endpoint in serving.endpoints:
            click.echo(f"ready {endpoint}")
        _wait(stop_reader, parent_pid)


def _wait(stop_reader: int, parent_pid: int | None) -> None:
    """Return when a signal arrived or the parent ended."""
    poller = select.poll()
    poller.register(stop_reader, select.POLLIN)
    if parent_pid is not None:
        try:
            poller.register(os.pidfd_open(parent_pid), select.POLLIN)
        except ProcessLookupError:
            return
    poller.poll()
