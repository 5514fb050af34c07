"""Crashes inside every publish: a process is ended or stopped between two steps of it. Does the other side get hurt?

    python -m tests.endurance.crashes                       # all of it, in about half an hour
    python -m tests.endurance.crashes --kind steps --point frame
    python -m tests.endurance.crashes --sample 20

The points are those that a client and an engine come to while they work: macros in a build of the C module for these
tests, and in Python each line of the functions that publish (`fault_points`). At each a process is killed, leaves by
exit(), goes on as another program (exec), is killed after a fork whose child keeps all it inherited, or is stopped: for
good, and for a moment (pause). Points in C, and those of the pure-Python fallback, are played with every kind of work and
over both kinds of rings; the others, which no kind of work changes, once.

The survivor must get an error of its API within 100 ms (when its peer stands still: within 100 ms of its deadline), must
never see a wrong or torn answer, must hold no more than before, and must find the next peer; with a peer that goes on it
goes on too. Exit code 0 means that it was so in every case.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Sequence

import click

from tests.endurance import fault_native
from tests.endurance.fault_points import DEEDS
from tests.endurance.leaks import no_collector

__all__ = ["main"]

_BUILDS = ("native", "fallback")
_PER_LINE = 15


@click.command(help=__doc__)
@click.option("--kind", "kinds", multiple=True, help="Only this kind of work; may be repeated.")
@click.option("--point", "points", multiple=True, help="Only points that have this in their name; may be repeated.")
@click.option("--deed", "deeds", multiple=True, type=click.Choice(list(DEEDS)), help="Only this; may be repeated.")
@click.option("--victim", "victims", multiple=True, type=click.Choice(["client", "engine"]), help="Only this one.")
@click.option("--build", "builds", multiple=True, type=click.Choice(_BUILDS), help="Only this one.")
@click.option("--sample", type=click.IntRange(1), help="Only so many of the cases, drawn.")
@click.option("--seed", type=int, help="To play a run again.")
def main(
    kinds: tuple[str, ...],
    points: tuple[str, ...],
    deeds: tuple[str, ...],
    victims: tuple[str, ...],
    builds: tuple[str, ...],
    sample: int | None,
    seed: int | None,
) -> None:
    """Crash, and print what was found."""
    built = fault_native.build()
    if built is None:
        raise click.ClickException("the native module cannot be compiled here: a C compiler and Python's headers")
    os.environ[fault_native.ENVIRONMENT] = str(built)  # of the processes to come; this one has the installed module
    from tests.endurance.crash_run import KINDS, NOTICED_S, CrashCase, CrashRun, Reached

    seed = secrets.randbits(32) if seed is None else seed
    chosen = kinds or KINDS
    chosen_builds = [build == "native" for build in builds or _BUILDS]
    run = CrashRun(seed, chosen_builds)
    rng = random.Random(seed)
    try:
        reached: list[Reached] = []
        for native in chosen_builds:
            for kind in chosen:
                for lane in ("segment", "listener") if kind != "steps" else ("segment",):
                    reached += run.reached(kind, lane, native)
        never = set(fault_native.POINTS) - {one.point for one in reached}
        wanted = [one for one in reached if not points or any(part in one.point for part in points)]
        wanted = [one for one in wanted if not victims or one.victim in victims]
        cases: list[CrashCase] = [
            run.case(one, deed) for one in _once(wanted, rng) for deed in deeds or DEEDS
        ]
        if sample is not None:
            cases = rng.sample(cases, min(sample, len(cases)))
        click.echo(f"{len(cases)} cases at {len({one.point for one in wanted})} points; seed {seed}")
        with no_collector():
            for number, case in enumerate(cases, 1):
                failed = len(run.found.failures)
                run.play(case)
                for _, why in run.found.failures[failed:]:
                    click.echo(f"FAILED {case}: {why}")
                if number % 100 == 0:
                    click.echo(f"  {number} cases, {len(run.found.failures)} failed", err=True)
    finally:
        run.close()
    found = run.found
    click.echo(f"{'':20}{'cases':>8}{'failures':>10}{'noticed after, ms: median':>28}{'longest':>10}")
    for kind in chosen:
        for victim in ("client", "engine"):
            times = found.noticed_s.get((kind, victim), [])
            bad = sum(case.reached.kind == kind and case.reached.victim == victim for case, _ in found.failures)
            late = sum(time > NOTICED_S for time in times)
            _line(f"{kind}, {victim}", len(times) + bad - late, bad, times)
    every = [time for times in found.noticed_s.values() for time in times]
    _line("all", len(cases), len(found.failures), every)
    for name, count in found.errors.most_common():
        click.echo(f"{count:>6}  {name}")
    click.echo(f"{found.played_again} cases were played again: late, or the machine was too slow for them")
    if never and not (kinds or builds):
        raise click.ClickException(f"points that nothing came to: {', '.join(sorted(never))}")
    if found.failures:
        raise click.ClickException(f"{len(found.failures)} of {len(cases)} cases failed")
    click.echo("nothing was hurt, and nothing is left")


def _line(title: str, cases: int, failures: int, seconds: Sequence[float]) -> None:
    times = sorted(1000 * each for each in seconds) or [0.0]
    click.echo(f"{title:20}{cases:>8}{failures:>10}{times[len(times) // 2]:>28.1f}{times[-1]:>10.1f}")


def _once(reached: Sequence[object], rng: random.Random) -> list[object]:
    """Return the points, each of those that do not depend on the kind of work once, with any kind that comes to it."""
    kept: dict[object, object] = {}
    for one in rng.sample(list(reached), len(reached)):
        depends = one.point in fault_native.POINTS or one.point.startswith("fallback")
        key = one if depends else (one.victim, one.native, one.point, one.phase)
        kept.setdefault(key, one)
    return list(kept.values())


if __name__ == "__main__":
    main()
