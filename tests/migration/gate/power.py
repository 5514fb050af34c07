"""How often the gate lets a candidate pass that is a given number of times as slow as the control.

    python -m tests.migration.gate.power --out migration/power.png

Each run draws the durations of every method anew; seeds are fixed. They spread as those of real calls do (lognormal,
sigma 0.4), and those of one call are independent, so pairing gains nothing here: real pairs need fewer calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from lucky_transport_migration.evidence.record import EQUAL
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import MethodVerdict, judge_method

__all__ = ["CALLS", "drawn", "promoted_share", "summary", "verdicts"]

#: Methods judged together -> compared calls of each with which the gate's defaults can be met.
CALLS = {1: 1_000, 10: 2_000, 72: 3_000}

_SIGMA = 0.4


def summary(control: NDArray[np.float64], candidate: NDArray[np.float64], calls: int) -> EvidenceSummary:
    """Return what so many equal calls come to, with these pairs of durations in microseconds."""
    found = EvidenceSummary()
    found.verdicts[EQUAL] = calls
    found._unvaried[False] = calls  # pyright: ignore[reportPrivateUsage] - `add` takes too long
    for kept, durations in zip(found._pairs, (control, candidate), strict=True):  # pyright: ignore[reportPrivateUsage]
        kept.frombytes(durations.tobytes())
    return found


def drawn(random: np.random.Generator, calls: int, times: float) -> EvidenceSummary:
    """Return what so many equal calls come to whose candidate takes `times` as long, but for chance."""
    control, candidate = (random.lognormal(np.log(us), _SIGMA, calls) for us in (400.0, 400.0 * times))
    return summary(control, candidate, calls)


def verdicts(methods: int, calls: int, times: float, runs: int, limits: Limits) -> Iterator[list[MethodVerdict]]:
    """Yield the verdicts of each run on all methods."""
    random = np.random.default_rng([methods, calls, round(times * 1000)])
    for _ in range(runs):
        yield [judge_method(drawn(random, calls, times), limits, among=methods) for _ in range(methods)]


def promoted_share(methods: int, times: float, runs: int) -> float:
    """Return the share of runs in which all methods may move on, by the gate's defaults."""
    found = [all(one.promote for one in run) for run in verdicts(methods, CALLS[methods], times, runs, Limits())]
    return sum(found) / runs


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The picture, a PNG.")
@click.option("--runs", default=100, help="Runs for each point.")
def main(out: Path, runs: int) -> None:
    """Draw the power curve."""
    from matplotlib.figure import Figure

    ratios = np.linspace(0.94, 1.2, 27)
    figure = Figure(figsize=(7, 3.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for methods, calls in CALLS.items():
        shares = [100 * promoted_share(methods, float(times), runs) for times in ratios]
        noun = "method" if methods == 1 else "methods together"
        axes.plot(ratios, shares, label=f"{methods} {noun}, {calls:,} calls each")
    limit = Limits().slower_limit
    axes.axvline(limit, color="0.5", linestyle="--", linewidth=1)
    axes.annotate(f"slower_limit {limit}", (limit, 50), (4, 0), textcoords="offset points", color="0.35")
    axes.set_xlabel("times as slow as gRPC the candidate really is")
    axes.set_ylabel("runs that promote all, %")
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(out)


if __name__ == "__main__":
    main()
