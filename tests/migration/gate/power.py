"""How often the gate lets a candidate pass that is a given number of times as slow as the control, where noise lasts.

    python -m tests.migration.gate.power                             # simulate: false passes, equal candidates refused
    python -m tests.migration.gate.power --out docs/figures/power.png   # draw the power curves

Each run draws the calls anew; seeds are fixed. The logarithm of a duration is noise that lasts, of standard deviation
0.3 (a first-order process: a call's is correlated with the next one's), and noise of its own, of 0.2. Both sides have
their own, so pairing gains nothing here: real pairs need fewer calls. The rate of mismatches rises and falls with such
noise too. A run is looked at at random moments, none before enough was seen to promote, and passes when any of its
looks does. Exit code 0 when at most 5 % of the runs of each kind pass that are at a limit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.latency import Pairs, Tails
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import MethodVerdict, judge_method

#: Methods judged together -> compared calls of each with which the gate's defaults can be met at the first look.
CALLS = {1: 1_200, 10: 2_400, 72: 4_500}

#: The calls of a run, how often it is looked at, and how noise that lasts is correlated from one call to the next.
MOST = 5_000
LOOKS = (1, 8, 50)
CORRELATIONS = (0.0, 0.5, 0.9, 0.99)

_LASTS, _OWN = 0.3, 0.2
Values = NDArray[np.float64]
_equal: Callable[[int], dict[Any, bool]] = cache(lambda calls: dict.fromkeys(range(calls), False))

#: What so many of a run's first calls come to, None where they cannot pass.
Growing = Callable[[int], EvidenceSummary | None]


def summary(control: Values, candidate: Values, calls: int, bad: Sequence[int] = ()) -> EvidenceSummary:
    """Return what so many calls come to, those numbered `bad` different, with these durations in microseconds."""
    found = EvidenceSummary()
    found.verdicts.update({"equal": calls - len(bad), "different": len(bad)})
    found._is_bad |= _equal(calls)  # pyright: ignore[reportPrivateUsage] - `add` takes too long
    found._is_bad |= dict.fromkeys(bad, True)  # pyright: ignore[reportPrivateUsage]
    found.pairs = Pairs(*_kept(control, candidate))
    return found


def drawn(random: np.random.Generator, calls: int, times: float, correlation: float = 0.0) -> EvidenceSummary:
    """Return what so many equal calls come to whose candidate takes `times` as long, but for chance."""
    control, candidate = (durations(random, calls, correlation, us) for us in (400.0, 400.0 * times))
    return summary(control, candidate, calls)


def verdicts(methods: int, times: float, runs: int, limits: Limits) -> Iterator[Iterator[MethodVerdict]]:
    """Yield the verdicts of each run's first look on all methods; those that are not asked for are not made."""
    calls = CALLS[methods]
    random = np.random.default_rng([methods, calls, round(times * 1000)])
    for _ in range(runs):
        yield (judge_method(drawn(random, calls, times), limits, among=methods) for _ in range(methods))


def moments(random: np.random.Generator, looks: int) -> list[int]:
    """Return after how many calls a run is looked at."""
    return sorted(random.integers(CALLS[1], MOST, looks, endpoint=True).tolist())


def passed(growing: Growing, at: Sequence[int], limits: Limits) -> bool:
    """True when the method passes at any look; `growing` is asked for the calls until then."""
    seen = ((look, growing(calls)) for look, calls in enumerate(at, 1))
    return any(one is not None and judge_method(one, limits, look=look).promote for look, one in seen)


# what is drawn


def noise(random: np.random.Generator, calls: int, correlation: float) -> Values:
    """Return noise that lasts, (calls,) of standard deviation 1."""
    from scipy.signal import lfilter  # half a second, of each process that only looks what tests there are

    shocks = random.standard_normal(calls)
    shocks[1:] *= (1 - correlation**2) ** 0.5
    return np.asarray(lfilter([1.0], [1.0, -correlation], shocks))


def durations(random: np.random.Generator, calls: int, correlation: float, us: float) -> Values:
    """Return durations around `us`."""
    own = random.standard_normal(calls)
    return us * np.exp(_LASTS * noise(random, calls, correlation) + _OWN * own)


# the kinds of runs


def pairs(random: np.random.Generator, correlation: float, times: float, aa: int = 0) -> Growing:
    """Return a run at `shadow`: both answer each call. aa: pairs of an A/A run, alike but for chance."""
    control, candidate = (durations(random, MOST, correlation, us) for us in (400.0, 400.0 * times))
    alike = Pairs(*_kept(*(durations(random, aa, correlation, 400.0) for _ in range(2))))
    faster = np.cumsum(candidate <= Limits().slower_limit * control)

    def growing(calls: int) -> EvidenceSummary | None:
        if not aa and faster[calls - 1] <= calls / 2:  # its middle is above the limit, so no bound can be below
            return None
        found = summary(control[:calls], candidate[:calls], calls)
        found.aa = alike
        return found

    return growing


def mismatches(random: np.random.Generator, correlation: float, rate: float) -> Growing:
    """Return a run whose answers differ at that rate, at times more often and at times less."""
    rates = np.exp(_LASTS * noise(random, MOST, correlation) + _OWN * random.standard_normal(MOST))
    bad = random.random(MOST) < rate * rates / np.exp((_LASTS**2 + _OWN**2) / 2)
    control, candidate = np.full(MOST, 400.0), np.full(MOST, 40.0)
    places = np.flatnonzero(bad)
    return lambda calls: summary(control[:100], candidate[:100], calls, places[places < calls].tolist())


def tails(random: np.random.Generator, correlation: float, times: float) -> Growing:
    """Return a run at `canary 50%`: callers wait for either."""
    waited = [durations(random, MOST // 2, correlation, us) for us in (400.0, 400.0 * times)]

    def growing(calls: int) -> EvidenceSummary | None:
        sides = [side[: calls // 2] for side in waited]
        if times > 1 and _p99(sides[1]) > Limits().tail_limit * _p99(sides[0]):
            return None
        found = summary(np.full(100, 400.0), np.full(100, 40.0), calls)
        found.tails = Tails(*_kept(*sides))
        found.stages.add("canary")
        return found

    return growing


def _p99(values: Values) -> float:
    rank = -(-99 * values.size // 100) - 1
    return float(np.partition(values, rank)[rank])


def _kept(*sides: Values) -> Iterator[array[float]]:
    return (array("d", side.tobytes()) for side in sides)


def share(
    kind: Callable[..., Growing], correlation: float, looks: int, runs: int, limits: Limits, **given: float
) -> float:
    """Return the share of runs of a kind that pass."""
    random = np.random.default_rng([looks, *(round(1000 * one + 1000) for one in (correlation, *given.values()))])
    runs = min(runs, 7_500 // looks)
    return sum(passed(kind(random, correlation, **given), moments(random, looks), limits) for _ in range(runs)) / runs


#: What is simulated: a kind of run, what it is given, and limits of which the others decide nothing.
_Kinds = dict[str, tuple[Callable[..., Growing], dict[str, float], Limits]]
_LOOSE = Limits(mismatch_limit=0.5)
AT_LIMIT: _Kinds = {
    "p50 at slower_limit": (pairs, {"times": 1.1}, _LOOSE),
    "p50 at slower_limit, A/A run of 500": (pairs, {"times": 1.1, "aa": 500}, _LOOSE),
    "p99 at tail_limit": (tails, {"times": 1.5}, _LOOSE),
    "mismatches at mismatch_limit": (mismatches, {"rate": 0.003}, Limits()),
}
_EQUAL: _Kinds = {
    "equal at shadow": (pairs, {"times": 1.0}, Limits()),
    "equal in a canary": (tails, {"times": 1.0}, Limits()),
    "0.3 times as long at shadow": (pairs, {"times": 0.3}, Limits()),
    "0.3 times as long in a canary": (tails, {"times": 0.3}, Limits()),
}


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="The picture, a PNG; nothing is simulated."
)
@click.option(
    "--runs", default=300, show_default=True, help="Runs of each kind, half as many of 50 looks, or for each point."
)
def main(out: Path | None, runs: int) -> None:
    """Simulate runs, or draw the power curves."""
    if out is not None:
        _draw(out, runs)
        return
    click.echo(f"{runs:,} runs of {MOST:,} calls each; correlation of noise, and looks: {LOOKS}")
    most = 0.0
    for title, kinds in (("pass", AT_LIMIT), ("refused", _EQUAL)):
        for name, (kind, given, limits) in kinds.items():
            for correlation in CORRELATIONS:
                shares = [share(kind, correlation, looks, runs, limits, **given) for looks in LOOKS]
                erred = shares if kinds is AT_LIMIT else [1 - one for one in shares]
                most = max(most, *erred) if kinds is AT_LIMIT else most
                click.echo(f"| {name}: {title} | {correlation} | {' | '.join(f'{one:.1%}' for one in erred)} |")
    raise SystemExit(most > 0.05)


def _draw(out: Path, runs: int) -> None:
    from matplotlib.figure import Figure

    limit = Limits().slower_limit
    ratios = np.linspace(0.8, 1.16, 13)
    figure = Figure(figsize=(7, 3.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for correlation, style in zip(CORRELATIONS, ("-", "--", "-.", ":"), strict=True):
        shares = [100 * share(pairs, correlation, 8, runs, Limits(), times=float(times)) for times in ratios]
        axes.plot(ratios, shares, style, label=f"noise correlated {correlation:g}")
    axes.axvline(limit, color="0.5", linewidth=1)
    axes.annotate(f"slower_limit {limit}", (limit, 60), (4, 0), textcoords="offset points", color="0.35")
    axes.axhline(5, color="0.5", linewidth=1)
    axes.annotate("5 %", (ratios[-1], 5), (-2, 3), textcoords="offset points", color="0.35", ha="right")
    axes.set_xticks(ratios[::2])
    axes.set_xlabel("times as slow as gRPC the candidate really is (p50)")
    axes.set_ylabel("runs that pass at any of 8 looks, %")
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left")
    figure.savefig(out)


if __name__ == "__main__":
    main()
