"""`lucky-transport services`: which services a running engine answers, seen and changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.cli.tables import show

if TYPE_CHECKING:
    from lucky_transport.control import EngineDescription


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport services shm://demo\n"
    "  lucky-transport services shm://demo --off 'CameraService,Lidar*'\n"
    "  lucky-transport services shm://demo --on '*' --fps TelemetryService=10\n"
    "  lucky-transport services grpc://127.0.0.1:50051 --fps 'Mujoco*/Stream*=0' --json",
)
@click.argument("endpoint", shell_complete=complete_endpoints)
@click.option("--on", multiple=True, metavar="NAME,...", help="Services to switch on, names or patterns; repeatable.")
@click.option("--off", multiple=True, metavar="NAME,...", help="Services to switch off; repeatable.")
@click.option(
    "--fps",
    multiple=True,
    metavar="NAME=RATE,...",
    help="The most items a second of a stream, a service's streams or a pattern's, 0 for no limit; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def services(endpoint: str, on: tuple[str, ...], off: tuple[str, ...], fps: tuple[str, ...], as_json: bool) -> None:
    """Show which services the engine at ENDPOINT answers, and change that while it runs.

    Only the user who runs the engine can, on the same host. A service that is off is UNIMPLEMENTED over every
    transport, and its running streams end so; steps go on. A change lasts until the engine ends: `serve` has --without,
    --services and --fps for its start.
    """
    from lucky_transport import control
    from lucky_transport.table_readers import parse_rates

    rates = parse_rates(_split(fps))
    is_change = on or off or rates
    engine = (
        control.change(endpoint, on=_split(on), off=_split(off), fps=rates)
        if is_change
        else control.engine_at(endpoint)
    )
    if as_json:
        click.echo(json.dumps(asdict(engine), indent=2))
    else:
        show_services(engine)


def _split(texts: tuple[str, ...]) -> list[str]:
    return ",".join(texts).split(",") if texts else []


def show_services(engine: EngineDescription) -> None:
    """Print the services of an engine, and the limits of its streams."""
    rows = [(name, "on" if is_on else "off") for name, is_on in engine.services.items()]
    show(f"Services of engine {engine.engine} at {' '.join(engine.endpoints)}", ("service", "state"), rows)
    streams = [(name, f"{hz:g}/s at most" if hz else "none") for name, hz in engine.streams.items()]
    if streams:
        show("Streams", ("stream", "limit"), streams)
