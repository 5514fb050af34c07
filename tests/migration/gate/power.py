"""How often the gate lets a candidate pass that is a given number of times as slow as the control.

    python -m tests.migration.gate.power                             # simulate: false passes, equal candidates refused
    python -m tests.migration.gate.power --out docs/figures/power.png   # draw the power curves

Each run draws the durations of every method anew; seeds are fixed. They spread as those of real calls do (lognormal,
sigma 0.4), and those of one call are independent, so pairing gains nothing here: real pairs need fewer calls. A run
passes when any of its looks does. Exit code 0 when at most 5 % of the runs of each kind err.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.latency import Pairs, Tails
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import MethodVerdict, judge_method

__all__ = ["CALLS", "LOOKS", "MOST", "drawn", "passes", "promoted_share", "summary", "verdicts"]

#: Methods judged together -> compared calls of each with which the gate's defaults can be met at the first look.
CALLS = {1: 1_200, 10: 2_000, 72: 3_000}

#: The calls of a run, and how often it is looked at, in equal distances.
MOST = 5_000
LOOKS = (1, 10, 50)

_SIGMA = 0.4
Durations = NDArray[np.float64]

#: What so many of a run's first calls come to.
Growing = Callable[[int], EvidenceSummary]


def summary(control: Durations, candidate: Durations, calls: int, *, bad: int = 0) -> EvidenceSummary:
    """Return what so many calls come to, `bad` of them different, with these pairs of durations in microseconds."""
    found = EvidenceSummary()
    found.verdicts.update({EQUAL: calls - bad, DIFFERENT: bad})
    found._unvaried.update({False: calls - bad, True: bad})  # pyright: ignore[reportPrivateUsage] - `add` takes too long
    found.pairs = Pairs(*_kept(control, candidate))
    return found


def drawn(random: np.random.Generator, calls: int, times: float) -> EvidenceSummary:
    """Return what so many equal calls come to whose candidate takes `times` as long, but for chance."""
    return summary(*_durations(random, calls, times), calls)


def verdicts(methods: int, calls: int, times: float, runs: int, limits: Limits) -> Iterator[list[MethodVerdict]]:
    """Yield the verdicts of each run's first look on all methods."""
    random = np.random.default_rng([methods, calls, round(times * 1000)])
    for _ in range(runs):
        yield [judge_method(drawn(random, calls, times), limits, among=methods) for _ in range(methods)]


def promoted_share(methods: int, times: float, runs: int) -> float:
    """Return the share of runs in which all methods may move on at the first look, by the gate's defaults."""
    found = [all(one.promote for one in run) for run in verdicts(methods, CALLS[methods], times, runs, Limits())]
    return sum(found) / runs


def passes(growing: Growing, looks: int, limits: Limits) -> bool:
    """True when any look lets the method pass; one from which nothing could come is not counted, as in `Looks`."""
    number = 1
    for calls in range(MOST // looks, MOST + 1, MOST // looks):
        found = judge_method(growing(calls), limits, look=number)
        if found.promote:
            return True
        number += found.is_whole
    return False


# the kinds of runs


def pairs(random: np.random.Generator, times: float, aa: int = 0) -> Growing:
    """Return a run at `shadow`: both answer each call. aa: pairs of an A/A run, alike but for chance."""
    control, candidate = _durations(random, MOST, times)
    alike = Pairs(*_kept(*_durations(random, aa, 1.0)))

    def growing(calls: int) -> EvidenceSummary:
        found = summary(control[:calls], candidate[:calls], calls)
        found.aa = alike
        return found

    return growing


def mismatches(random: np.random.Generator, rate: float) -> Growing:
    """Return a run whose answers differ at that rate."""
    control, candidate = _durations(random, MOST, 0.1)
    bad = np.cumsum(random.random(MOST) < rate)
    return lambda calls: summary(control[:calls], candidate[:calls], calls, bad=int(bad[calls - 1]))


def tails(random: np.random.Generator, times: float) -> Growing:
    """Return a run at `canary 50%`: callers wait for either."""
    waited = _durations(random, MOST // 2, times)

    def growing(calls: int) -> EvidenceSummary:
        found = summary(np.full(calls, 400.0), np.full(calls, 40.0), calls)
        found.tails = Tails(*_kept(*(side[: calls // 2] for side in waited)))
        found.stages.add("canary")
        return found

    return growing


def _durations(random: np.random.Generator, calls: int, times: float) -> tuple[Durations, Durations]:
    control, candidate = (random.lognormal(np.log(us), _SIGMA, calls) for us in (400.0, 400.0 * times))
    return control, candidate


def _kept(*sides: Durations) -> Iterator[array[float]]:
    return (array("d", side.tobytes()) for side in sides)


def _share(kind: Callable[..., Growing], looks: int, runs: int, limits: Limits, **given: float) -> float:
    """Return the share of runs of a kind that pass."""
    random = np.random.default_rng([looks, *map(round, (1000 * one for one in given.values()))])
    return sum(passes(kind(random, **given), looks, limits) for _ in range(runs)) / runs


#: What is simulated: a kind of run, what it is given, and limits of which the others decide nothing.
_Kinds = dict[str, tuple[Callable[..., Growing], dict[str, float], Limits]]
_LOOSE = Limits(mismatch_limit=0.5)
_AT_LIMIT: _Kinds = {
    "p50 at slower_limit": (pairs, {"times": 1.1}, _LOOSE),
    "p50 at slower_limit, A/A run of 500": (pairs, {"times": 1.1, "aa": 500}, _LOOSE),
    "p99 at tail_limit": (tails, {"times": 1.5}, _LOOSE),
    "mismatches at mismatch_limit": (mismatches, {"rate": 0.003}, Limits()),
}
_EQUAL: _Kinds = {
    "equal at shadow": (pairs, {"times": 1.0}, Limits()),
    "equal in a canary": (tails, {"times": 1.0}, Limits()),
}


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="The picture, a PNG; nothing is simulated."
)
@click.option("--runs", default=1_000, show_default=True, help="Runs of each kind, or for each point.")
def main(out: Path | None, runs: int) -> None:
    """Simulate runs, or draw the power curves."""
    if out is not None:
        _draw(out, runs)
        return
    most = 0.0
    for title, kinds in (("pass", _AT_LIMIT), ("are refused", _EQUAL)):
        for name, (kind, given, limits) in kinds.items():
            for looks in LOOKS:
                passed = _share(kind, looks, runs, limits, **given)
                erred = passed if kinds is _AT_LIMIT else 1 - passed
                most = max(most, erred)
                calls = f"{runs:,} runs of {MOST:,} calls"
                click.echo(f"{name}: {erred:.1%} of {calls} {title}, {looks} look{'s'[: looks > 1]}")
    raise SystemExit(most > 0.05)


def _draw(out: Path, runs: int) -> None:
    from matplotlib.figure import Figure

    limit = Limits().slower_limit
    ratios = np.linspace(1.0, 1.14, 15)
    figure = Figure(figsize=(7, 3.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for looks, style in zip(LOOKS, ("-", "--", ":"), strict=True):
        shares = [100 * _share(pairs, looks, runs, Limits(), times=float(times)) for times in ratios]
        every = f"{looks} looks, one every {MOST // looks:,} calls" if looks > 1 else f"one look, at {MOST:,} calls"
        axes.plot(ratios, shares, style, label=every)
    axes.axvline(limit, color="0.5", linewidth=1)
    axes.annotate(f"slower_limit {limit}", (limit, 60), (4, 0), textcoords="offset points", color="0.35")
    axes.axhline(5, color="0.5", linewidth=1)
    axes.annotate("5 %", (ratios[-1], 5), (-2, 3), textcoords="offset points", color="0.35", ha="right")
    axes.set_xticks(ratios[::2])
    axes.set_xlabel("times as slow as gRPC the candidate really is (p50)")
    axes.set_ylabel("runs that pass at any look, %")
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left")
    figure.savefig(out)


if __name__ == "__main__":
    main()
