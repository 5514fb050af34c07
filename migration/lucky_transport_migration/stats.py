"""What the numbers say: percentiles, ratios with intervals, and the fixed sentences of a verdict.

Every number and every sentence of a report comes from here, so terminal, HTML and JSON say the same words.

An interval is made of order statistics of the rounds, which needs no assumption on how they are distributed. A round is
one fresh pair of processes, the unit in which a machine's luck repeats itself; an interval over single steps would call
noise between runs a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import plural
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import times_text

#: An interval is printed when it holds the median at least so often: from six rounds on.
LEAST_COVERAGE = 0.95
#: A verdict needs so many rounds.
LEAST_ROUNDS = 6

#: Samples from which a percentile is worth showing. Five samples lie beyond p99 at 500 and beyond p99.9 at 5,000;
#: p99.99 asks for ten (100,000), since a single timer tick decides it below that.
NEEDED = {"p50": 1, "p99": 500, "p999": 5_000, "p9999": 100_000}

#: Each percentile's share of samples at or below it.
SHARES = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, bounds, and how often such bounds hold the true value; `rounds` is how many rounds it rests on.

    Fewer rounds than it takes for `LEAST_COVERAGE` give the lowest and the highest round, which are not printed.
    """

    mid: float
    low: float
    high: float
    rounds: int = 1
    coverage: float = 0.0

    @property
    def is_known(self) -> bool:
        """True where the bounds hold the true value often enough to be called an interval and judged by."""
        return self.coverage >= LEAST_COVERAGE and self.rounds >= LEAST_ROUNDS

    def inverse(self) -> Interval:
        """Return the interval of 1/x."""
        return Interval(1 / self.mid, 1 / self.high, 1 / self.low, self.rounds, self.coverage)

    def row(self) -> dict[str, float]:
        """Return it as a report keeps it: six significant digits, so that no positive ratio becomes zero."""
        return {
            "ratio": _significant(self.mid),
            "low": _significant(self.low),
            "high": _significant(self.high),
            "coverage": round(self.coverage, 4),
        }


def _significant(value: float) -> float:
    return float(f"{value:.6g}")


class Word(Enum):
    """The outcome of a comparison, in one word."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "NO DIFFERENCE"
    UNKNOWN = "NO VERDICT"


class Overall(Enum):
    """The outcome of all comparisons of a kind, in one word."""

    ALL = "FASTER"
    MOST = "MOSTLY FASTER"
    SOME = "MIXED"
    NONE = "NOT FASTER"
    UNKNOWN = "NO VERDICT"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word and the sentence that goes with it."""

    word: Word | Overall
    sentence: str


def percentile(samples: NDArray[np.int64], share: float) -> float:
    """Return the nearest-rank percentile: the smallest sample that at least `share` per cent do not exceed.

    samples: one axis, any order. Raises ValueError when there are none.
    """
    if samples.size == 0:
        raise ValueError("no samples: a percentile needs at least one")
    return float(np.percentile(samples, share, method="inverted_cdf"))


def supported(n: int) -> list[str]:
    """Return the names of the percentiles that `n` samples support, lowest first."""
    return [name for name, needed in NEEDED.items() if n >= needed]


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of `values` with the narrowest pair of order statistics that covers it in 95 % of runs.

    That pair is the k-th lowest and the k-th highest value; it misses the median when fewer than k values lie on one
    side of it, which is a binomial probability. Raises ValueError when there are no values.
    """
    if not values:
        raise ValueError("no values: an interval needs at least one")
    ordered, n = sorted(values), len(values)
    return narrowest(ordered, float(np.median(ordered)), n, [comb(n, below) / 2**n for below in range(n + 1)])


def narrowest(ordered: Sequence[float], mid: float, rounds: int, chances: Sequence[float]) -> Interval:
    """Return the k-th lowest and k-th highest of `ordered` for the largest k that keeps `LEAST_COVERAGE`.

    `chances` says how likely 0, 1, 2, .. of the ordered values lie below the true value.
    """
    k, missed = 1, chances[0]
    while k < len(ordered) // 2 and 1 - 2 * (missed + chances[k]) >= LEAST_COVERAGE:
        missed += chances[k]
        k += 1
    return Interval(mid, min(mid, ordered[k - 1]), max(mid, ordered[-k]), rounds, max(0.0, 1 - 2 * missed))


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Return how many times larger `over` is than `under`: the median of the rounds' quotients, with its interval.

    Both hold one value per round, in the same order of rounds. Raises ValueError when their lengths differ or a value
    of `under` is not above zero.
    """
    if len(over) != len(under):
        raise ValueError(f"{len(over)} rounds over {len(under)}: a ratio is taken round by round")
    if any(not value > 0 for value in under):
        raise ValueError(f"a ratio over {min(under)}: every value below the line must be above zero")
    return median_interval([a / b for a, b in zip(over, under, strict=True)])


def floor_of(again: Interval) -> float:
    """Return the noise floor that measuring the same thing twice (A/A) gave: the farther end of its interval."""
    return max(again.high, 1 / again.low)


def floor_sentence(name: str, again: Interval, floors: Sequence[float]) -> str:
    """Return the sentence on the A/A ratio of `name`, and on the floors of all kinds of rows."""
    return (
        f"Measured twice (A/A), {name} took {times_text(again.mid)} times as long as itself {_span(again)}. Each kind "
        f"of row has an A/A floor of its own, {times_text(min(floors))} to {times_text(max(floors))} times here; "
        "smaller differences are called no difference."
    )


def looked_at(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences on what was looked at while the rows were timed; a wrong value ends a run with an error."""
    groups: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        groups.setdefault(row["looked_at"], {}).setdefault(row["title"], []).append(label(row["path"]))
    sentences: list[str] = []
    for words, found in groups.items():
        count = plural(sum(map(len, found.values())), "row")
        shown = "; ".join(f"{title} ({', '.join(dict.fromkeys(paths))})" for title, paths in found.items())
        looked = f"Looked at in each exchange or item of {count}: {words}."
        sentences.append(looked if words else f"Nothing was looked at while timing {count}: {shown}.")
    return sentences


def compare(name: str, other: str, times: Interval, floor: float = 1.0) -> Verdict:
    """Return the verdict on `name` against `other`.

    `times` says how many times longer `other` takes. `floor` is how far the same thing measured twice (A/A) may lie
    from itself in this run; an interval that reaches into [1/floor, floor] is called no difference.
    """
    floor = max(floor, 1.0)
    if not times.is_known:
        took = f"{other} took {times_text(times.mid)} times as long {_span(times)}"
        return Verdict(Word.UNKNOWN, f"No verdict on {name} against {other}: {took}.")
    if times.low > floor:
        span = _span(times)
        return Verdict(Word.FASTER, f"{name} is {times_text(times.mid)} times faster than {other} {span}.")
    if times.high < 1 / floor:
        slower = times.inverse()
        span = _span(slower)
        return Verdict(Word.SLOWER, f"{name} is {times_text(slower.mid)} times slower than {other} {span}.")
    return Verdict(Word.SAME, f"No difference between {name} and {other} beyond the noise of this run {_span(times)}.")


def overall(name: str, others: str, words: Sequence[Word]) -> Verdict:
    """Return the verdict on `name` in all comparisons with `others`, of which `words` are the outcomes."""
    won, n = sum(word is Word.FASTER for word in words), len(words)
    if not n:
        return Verdict(Overall.UNKNOWN, f"Nothing was compared with {others}.")
    if Word.UNKNOWN in words:
        text = f"{name} against {others}: no verdict, that takes {LEAST_ROUNDS} rounds."
        return Verdict(Overall.UNKNOWN, text)
    if won == n:
        where = "the one comparison" if n == 1 else f"{n} of {n} comparisons, each judged alone"
        return Verdict(Overall.ALL, f"{name} is faster than {others} in {where}.")
    if not won:
        return Verdict(Overall.NONE, f"{name} is faster than {others} in none of {plural(n, 'comparison')}.")
    word = Overall.MOST if won * 2 > n else Overall.SOME
    return Verdict(
        word, f"{name} is faster than {others} in {won} of {plural(n, 'comparison')}; the rest is listed below."
    )


def _span(times: Interval) -> str:
    if not times.is_known:
        return f"({'one round' if times.rounds == 1 else f'{times.rounds} rounds'}, so no interval)"
    return f"({times_text(times.low)} to {times_text(times.high)})"
