"""Clients and engines killed at random moments: is it noticed in time, and is anything left?

    python -m tests.endurance.kills --kills 1000
    python -m tests.endurance.kills --deed kill --deed stop --command "./pendulum {name}"

Each round takes one kind of work, and sends SIGKILL to the client or to the engine at a random moment, while they meet
too. A killed client's engine must let go of all it held for it, and serve the next client. A killed engine's client
must get an error of its API that says so, within LIMIT_S, and must find the next engine of that name. With
`--deed stop` the process stands still for a moment, and nothing may fail. With `--command` the steps' engine is another
program, such as one of another language: `{name}` is its segment, and it ends at SIGTERM. Exit code 0 means that every
kill was noticed in time and named, nothing hung, and no descriptor, thread, mapping or file in shared memory is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import click

from tests.endurance.kill_run import DEEDS, KillRun
from tests.endurance.leaks import available, no_collector
from tests.endurance.workloads import ENGINE, WORKLOADS

__all__ = ["main"]


def _line(title: str, seconds: Sequence[float]) -> str:
    times = sorted(1000 * each for each in seconds)
    median, late = times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]
    return f"{title:24}{len(times):6}{median:10.1f}{late:10.1f}{times[-1]:10.1f}"


@click.command(help=__doc__)
@click.option("--kills", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(WORKLOADS)), help="Only this; may be repeated.")
@click.option("--deed", "deeds", multiple=True, type=click.Choice(DEEDS), default=["kill"], show_default=True)
@click.option("--command", help="Starts the engine of the steps; alone, only steps are done.")
@click.option("--seed", type=int, help="To play a run again.")
def main(kills: int, kinds: tuple[str, ...], deeds: tuple[str, ...], command: str | None, seed: int | None) -> None:
    """Kill, and print what was found."""
    seed = secrets.randbits(32) if seed is None else seed
    chosen = list(kinds) or (available() if command is None else ["steps"])
    click.echo(f"{kills} kills over {', '.join(chosen)}; seed {seed}")
    run = KillRun(chosen, seed, deeds, None if command is None else {ENGINE: command})
    try:
        with no_collector():
            run.play(kills)
    finally:
        run.close()
    found = run.found
    click.echo(f"{'noticed after, ms':24}{'kills':>6}{'median':>10}{'p99':>10}{'max':>10}")
    for title, seconds in sorted(found.noticed_s.items()):
        click.echo(_line(title, seconds))
    if every := [each for seconds in found.noticed_s.values() for each in seconds]:
        click.echo(_line("all", every))
    if found.stops:
        click.echo(f"{found.stops} stops, of which nothing failed")
    for name, count in found.errors.most_common():
        click.echo(f"{count:>6}  {name}")
    for failure in found.failures:
        click.echo(f"FAILED {failure}")
    if found.failures:
        raise click.ClickException(f"{len(found.failures)} of {kills} kills failed")
    click.echo("nothing is left, and nothing hung")


if __name__ == "__main__":
    main()
