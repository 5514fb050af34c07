"""What the numbers say: percentiles, ratios with intervals, and the fixed sentences of a verdict.

Every number and every sentence of a report comes from here, so terminal, HTML and JSON say the same words. A ratio is
taken inside one run, round by round, and never quoted without its interval. A percentile is only *shown* when the
sample supports it; `supported` decides.

The interval is a percentile bootstrap (Efron 1979) of the median over rounds, with a fixed seed: equal samples give
equal intervals. A round is one fresh pair of processes, the unit in which a machine's luck repeats itself; resampling
single steps would call noise between runs a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import plural
from lucky_transport_migration.units import times_text

__all__ = [
    "CHECKED",
    "NEEDED",
    "RUN_FLOOR",
    "SHARES",
    "WHOLE",
    "Interval",
    "Overall",
    "Verdict",
    "Word",
    "bootstrap",
    "change",
    "changed",
    "compare",
    "floor_of",
    "floor_sentence",
    "overall",
    "percentile",
    "ratio",
    "ratio_between_runs",
    "supported",
]

_DRAWS = 4000
_CONFIDENCE = 0.95

#: What a run's figures are worth: every loop checks them, and the run fails otherwise.
WHOLE = "Every exchange was counted and its content looked at: none was lost, doubled or torn."
#: The same of a suite of calls, whose streams of pictures may skip some.
CHECKED = "Every answer and every item was looked at: none was torn, doubled or another's."

#: Two runs of one thing differ by so much on a machine that nothing else uses: smaller changes are not called one.
RUN_FLOOR = 1.05

#: Samples from which a percentile is worth showing. Five samples lie beyond p99 at 500 and beyond p99.9 at 5,000;
#: p99.99 asks for ten (100,000), since a single timer tick decides it below that.
NEEDED = {"p50": 1, "p99": 500, "p999": 5_000, "p9999": 100_000}

#: Each percentile's share of samples at or below it.
SHARES = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the bounds of its 95 % interval; `rounds` is how many rounds it rests on."""

    mid: float
    low: float
    high: float
    rounds: int = 1

    def inverse(self) -> Interval:
        """Return the interval of 1/x."""
        return Interval(1 / self.mid, 1 / self.high, 1 / self.low, self.rounds)

    def row(self) -> dict[str, float]:
        """Return it as a report keeps it: six significant digits, so that no positive ratio becomes zero."""
        return {"ratio": _significant(self.mid), "low": _significant(self.low), "high": _significant(self.high)}


def _significant(value: float) -> float:
    return float(f"{value:.6g}")


class Word(Enum):
    """The outcome of a comparison, in one word."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "NO DIFFERENCE"


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


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the median of `values` with its 95 % bootstrap interval; one value alone has an interval of no width.

    Raises ValueError when there are no values.
    """
    if not values:
        raise ValueError("no values: an interval needs at least one")
    array = np.asarray(values, np.float64)
    drawn = np.random.default_rng(seed).integers(0, array.size, (_DRAWS, array.size))
    medians = np.median(array[drawn], axis=1)
    tail = (1 - _CONFIDENCE) / 2 * 100
    low, high = np.percentile(medians, (tail, 100 - tail))
    return Interval(float(np.median(array)), float(low), float(high), array.size)


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Return how many times larger `over` is than `under`: the median of the rounds' quotients, with its interval.

    Both hold one value per round, in the same order of rounds. Raises ValueError when their lengths differ or a value
    of `under` is not above zero.
    """
    if len(over) != len(under):
        raise ValueError(f"{len(over)} rounds over {len(under)}: a ratio is taken round by round")
    if any(not value > 0 for value in under):
        raise ValueError(f"a ratio over {min(under)}: every value below the line must be above zero")
    return bootstrap([a / b for a, b in zip(over, under, strict=True)])


def ratio_between_runs(over: Sequence[float], under: Sequence[float], seed: int = 0) -> Interval:
    """Return how many times larger `over` is than `under`, whose rounds belong to different runs, so to no pairs.

    The interval is that of the medians' quotient, both drawn anew. Raises ValueError when a side has no values or a
    value of `under` is not above zero.
    """
    if not over or not under or any(not value > 0 for value in under):
        raise ValueError(f"a ratio of {list(over)} over {list(under)}: both need values, those below the line above 0")
    random = np.random.default_rng(seed)
    drawn: list[NDArray[np.float64]] = []
    for values in (over, under):
        array = np.asarray(values, np.float64)
        drawn.append(np.median(array[random.integers(0, array.size, (_DRAWS, array.size))], axis=1))
    tail = (1 - _CONFIDENCE) / 2 * 100
    low, high = np.percentile(drawn[0] / drawn[1], (tail, 100 - tail))
    mid = float(np.median(over)) / float(np.median(under))
    return Interval(mid, float(low), float(high), min(len(over), len(under)))


def floor_of(again: Interval) -> float:
    """Return the noise floor that measuring the same thing twice (A/A) gave: its ratio, taken upwards."""
    return max(again.mid, 1 / again.mid)


def floor_sentence(name: str, again: Interval) -> str:
    """Return the sentence on the A/A ratio of `name`."""
    return (
        f"Measured twice (A/A), {name} took {times_text(again.mid)} times as long as itself {_span(again)}; "
        "smaller differences are called no difference."
    )


def compare(name: str, other: str, times: Interval, floor: float = 1.0) -> Verdict:
    """Return the verdict on `name` against `other`.

    `times` says how many times longer `other` takes. `floor` is the ratio that the same thing measured twice (A/A)
    showed in this run; an interval that reaches into [1/floor, floor] is called no difference.
    """
    floor = max(floor, 1.0)
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
    if won == n:
        return Verdict(
            Overall.ALL,
            f"{name} is faster than {others} in {'the one comparison' if n == 1 else f'all {n} comparisons'}.",
        )
    if not won:
        return Verdict(Overall.NONE, f"{name} is faster than {others} in none of {plural(n, 'comparison')}.")
    word = Overall.MOST if won * 2 > n else Overall.SOME
    return Verdict(
        word, f"{name} is faster than {others} in {won} of {plural(n, 'comparison')}; the rest is listed below."
    )


def change(what: str, times: Interval, floor: float) -> Verdict:
    """Return the verdict on what became of `what` between two runs; `times`: how many times longer it takes now."""
    floor = max(floor, RUN_FLOOR)
    if times.high < 1 / floor:
        faster = times.inverse()
        return Verdict(Word.FASTER, f"{what}: {times_text(faster.mid)} times faster than before {_span(faster)}.")
    if times.low > floor:
        return Verdict(Word.SLOWER, f"{what}: {times_text(times.mid)} times slower than before {_span(times)}.")
    return Verdict(Word.SAME, f"{what}: no change beyond noise {_span(times)}.")


def changed(rows: int, faster: int, slower: int) -> str:
    """Return the sentence on all of two runs' common rows."""
    if not rows:
        return "NOTHING IN COMMON: the two runs share no row."
    if not faster + slower:
        return f"NO CHANGE: none of {plural(rows, 'row')} changed beyond noise."
    return f"CHANGED: of {plural(rows, 'row')} {faster} became faster and {slower} slower, beyond noise."


def _span(times: Interval) -> str:
    if times.rounds == 1:
        return "(one round, so no interval)"
    return f"({times_text(times.low)} to {times_text(times.high)})"
