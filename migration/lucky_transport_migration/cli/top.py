"""`lucky-transport top`: what the engines of this host do, again and again or once."""

from __future__ import annotations

import json
import sys
from functools import partial

import click

from lucky_transport.cli.tables import echo, show


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport top\n"
    "  lucky-transport top --once\n"
    "  lucky-transport top --once --json | jq '.engines[] | {name, rate: .steps.rate}'",
)
@click.option("--once", is_flag=True, help="Look for --interval seconds, print tables and end; needs no extra.")
@click.option("--json", "as_json", is_flag=True, help="With --once: print one JSON object instead of tables.")
@click.option(
    "--interval",
    "interval_s",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.1, max=3600),
    metavar="SECONDS",
    help="Seconds that a look takes.",
)
def top(once: bool, as_json: bool, interval_s: float) -> None:
    """Show engines, gRPC servers in shared memory, clients, step rates and rings; disturb none.

    Step times are had from outside: the counters of each loop are glanced at a hundred times a second, and steps faster
    than that are averaged between two glances. Nothing is attached, written or called.
    """
    if as_json and not once:
        raise click.UsageError("--json needs --once")
    from lucky_transport_migration.top.activity import ActivityMonitor

    if not once:
        from lucky_transport_migration.top.screen import TopScreen

        with ActivityMonitor() as activity:
            screen = TopScreen(partial(activity.read, interval_s))
            screen.run()
        sys.exit(screen.return_code)
    with ActivityMonitor() as activity:
        activity.read()  # what later rates are counted from
        reading = activity.read(interval_s)
    if as_json:
        click.echo(json.dumps(reading.plain(), indent=2))
        return
    from lucky_transport.diagnosis.servers import stale_sentence
    from lucky_transport_migration.top.cells import COLUMNS, SERVER_COLUMNS, engine_cells, server_cells

    show(f"Engines on {reading.host}", COLUMNS, [engine_cells(one) for one in reading.engines])
    if reading.servers:
        living = [server_cells(one) for one in reading.servers if one.report.state != "stale"]
        show(f"gRPC servers on {reading.host}", SERVER_COLUMNS, living)
        if stale := stale_sentence([one.report for one in reading.servers]):
            echo(stale)
    if reading.of_other_users:
        show("Segments of other users", ("name", "user id"), list(reading.of_other_users.items()))
