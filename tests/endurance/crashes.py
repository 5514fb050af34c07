"""Crashes inside every publish: a process is ended or stopped between two steps of it. Does the other side get hurt?

    python -m tests.endurance.crashes --jobs 4              # all of it, in about half an hour
    python -m tests.endurance.crashes --kind steps --only frame
    python -m tests.endurance.crashes --sample 20
    python -m tests.endurance.crashes --kit c               # or csharp: an engine of that kit, and clients in Python

The points are those that a client and an engine come to while they work: macros in a build of the C module, or of a
kit, for these tests, and in Python each line of the functions that publish (`fault_points`). At each a process is
killed, leaves by exit(), goes on as another program (exec), is killed after a fork whose child keeps all it inherited,
or is stopped: for good, and for a moment (pause). Points in C and of the kits are played with every kind of work and
over both kinds of rings; the others, which no kind of work changes, once.

The survivor must get an error of its API within 100 ms (when its peer stands still: within 100 ms of its deadline),
must never see a wrong or torn answer, must hold no more than before, and must find the next peer; with a peer that goes
on it goes on too. Exit code 0 means that it was so in every case.
"""

import multiprocessing
import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import click

from tests.endurance import fault_native, kit_builds
from tests.endurance.crash_cases import KINDS, CrashCase, CrashReport, Reached, cases_of
from tests.endurance.crash_run import NOTICED_S, CrashRun
from tests.endurance.fault_points import DEEDS
from tests.endurance.leaks import no_collector


@click.command(help=__doc__)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind of work; repeatable.")
@click.option("--only", "points", multiple=True, help="Only points that have this in their name; may be repeated.")
@click.option("--deed", "deeds", multiple=True, type=click.Choice(list(DEEDS)), help="Only this; may be repeated.")
@click.option("--victim", "victims", multiple=True, type=click.Choice(["client", "engine"]), help="Only this one.")
@click.option("--kit", type=click.Choice(sorted(kit_builds.KIT_POINTS)), help="Engines of this kit, not of Python.")
@click.option("--sample", type=click.IntRange(1), help="Only so many of the cases, drawn.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop after so long, and say how far it got.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Cases that are played at once.")
@click.option("--seed", type=int, help="To play a run again.")
@click.option(
    "--within-ms", default=1000 * NOTICED_S, show_default=True, help="The longest that a survivor may take to know."
)
def main(
    kinds: tuple[str, ...],
    points: tuple[str, ...],
    deeds: tuple[str, ...],
    victims: tuple[str, ...],
    kit: str | None,
    sample: int | None,
    minutes: float | None,
    jobs: int,
    seed: int | None,
    within_ms: float,
) -> None:
    """Crash, and print what was found."""
    seed = secrets.randbits(32) if seed is None else seed
    if kit is not None:  # its engines have no sessions
        kinds = tuple(kind for kind in kinds or KINDS if kind != "sessions")
    chosen = kinds or KINDS
    with_fault_points()
    with tempfile.TemporaryDirectory() as folder:
        make = partial(
            CrashRun,
            kinds=chosen,
            command=None if kit is None else kit_builds.build(kit, Path(folder)),
            noticed_s=within_ms / 1000,
        )
        reached = _reached(make(seed))
        wanted = [one for one in reached if not points or any(part in one.point for part in points)]
        wanted = [one for one in wanted if not victims or one.victim in victims]
        rng = random.Random(seed)
        cases = cases_of(wanted, deeds or DEEDS, rng)
        rng.shuffle(cases)
        cases = cases[:sample]
        click.echo(f"{len(cases)} cases at {len({case.reached.point for case in cases})} points; seed {seed}")
        found = CrashReport()
        until = None if minutes is None else time.time() + 60 * minutes
        # Each job is a process tree of its own: it looks at what its processes hold.
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            runs = [pool.submit(_play, make, seed + job, cases[job::jobs], until) for job in range(jobs)]
            for run in runs:
                found.add(run.result())
    _print(found)
    played = found.cases.total() + len(found.not_met)
    if played < len(cases):
        click.echo(f"{played} of {len(cases)} cases were played in {minutes:g} minutes")
    expected = fault_native.POINTS if kit is None else kit_builds.KIT_POINTS[kit]
    never = set(expected) - {one.point for one in reached if kit is None or one.victim == "engine"}
    if never and set(chosen) >= set(KINDS) - {"sessions"}:
        raise click.ClickException(f"points that nothing came to: {', '.join(sorted(never))}")
    if found.failures or found.left:
        raise click.ClickException(f"{len(found.failures)} of {played} cases failed; left: {found.left}")
    click.echo("nothing was hurt, and nothing is left")


def with_fault_points() -> None:
    """Have the processes to come use a build with fault points; this one keeps the installed module.

    Raises ClickException where there is no compiler.
    """
    built = fault_native.build()
    if built is None:
        raise click.ClickException("the native module cannot be compiled here: a C compiler and Python's headers")
    os.environ[fault_native.ENVIRONMENT] = str(built)


def _reached(run: CrashRun) -> list[Reached]:
    try:
        return run.reached()
    finally:
        run.close()


def _play(make: Callable[[int], CrashRun], seed: int, cases: Sequence[CrashCase], until: float | None) -> CrashReport:
    run = make(seed)
    try:
        with no_collector():
            for number, case in enumerate(cases, 1):
                if until is not None and time.time() > until:
                    break
                failed = len(run.found.failures)
                run.play(case)
                for _, why in run.found.failures[failed:]:
                    click.echo(f"FAILED {case}: {why}")
                if number % 100 == 0:
                    click.echo(f"  {number} of {len(cases)} cases, {len(run.found.failures)} failed", err=True)
    finally:
        run.close()
    return run.found


def _print(found: CrashReport) -> None:
    click.echo(f"{'':20}{'cases':>8}{'failures':>10}{'noticed after, ms: median':>28}{'longest':>10}")
    for title, cases in sorted(found.cases.items()):
        failures = sum((case.reached.kind, case.reached.victim) == title for case, _ in found.failures)
        _line(", ".join(title), cases, failures, found.noticed_s.get(title, []))
    every = [seconds for times in found.noticed_s.values() for seconds in times]
    _line("all", found.cases.total(), len(found.failures), every)
    click.echo(
        f"noticed: {len(every)}, of them {sum(time > NOTICED_S for time in every)} after {1000 * NOTICED_S:g} ms"
    )
    for name, count in found.errors.most_common():
        click.echo(f"{count:>6}  {name}")
    click.echo(f"{found.played_again} tries were played again: late, or the fault was not met")
    click.echo(f"{len(found.not_met)} cases more never came to their fault, in a number of tries")
    for case in found.not_met:
        click.echo(f"        {case}")


def _line(title: str, cases: int, failures: int, seconds: Sequence[float]) -> None:
    times = sorted(1000 * each for each in seconds) or [0.0]
    click.echo(f"{title:20}{cases:>8}{failures:>10}{times[len(times) // 2]:>28.1f}{times[-1]:>10.1f}")


if __name__ == "__main__":
    main()
