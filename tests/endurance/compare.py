"""What changed between two runs of one suite of `lucky-transport bench`, beyond the noise of both.

    python -m tests.endurance.compare OLD/bench.json NEW/bench.json

Only rows with equal keys are compared, each by the ratio of its rounds' p50 with an interval; figures of two machines
are never compared without saying that the machines differ. Nothing is asserted.
"""

import json
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any

import click
import numpy as np

from lucky_transport_migration.stats import LEAST_ROUNDS, Interval, narrowest
from lucky_transport_migration.units import times_text

#: Two runs of one thing differ by so much on a machine that nothing else uses: smaller changes are not called one.
RUN_FLOOR = 1.05
_MACHINE = ("cpu", "usable_cores", "machine", "kernel", "virtual_machine", "python")

Result = Mapping[str, Any]


def changes(old: Result, new: Result) -> list[tuple[str, str]]:
    """Return (word, sentence) of each row that both runs have."""
    before = {_key(row): row for row in old["rows"]}
    common = [(before[_key(row)], row) for row in new["rows"] if _key(row) in before]
    return [_change(earlier, now, (old, new)) for earlier, now in common]


def _key(row: Result) -> tuple[str, str | None, str]:
    return row["path"], row["wait"], row["title"]


def _change(old: Result, new: Result, results: Sequence[Result]) -> tuple[str, str]:
    floor = max(RUN_FLOOR, *map(_floor, results, (old, new)))
    times = ratio_between_runs(new["p50s"], old["p50s"])
    what = f"{new['title']}, {new['path']} {new['wait'] or ''}".rstrip()
    span = f"({times_text(times.low)} to {times_text(times.high)})"
    if min(len(old["p50s"]), len(new["p50s"])) < LEAST_ROUNDS:
        return "NO VERDICT", f"{what}: no verdict, {times_text(times.mid)} times as long as before"
    word = "FASTER" if times.high < 1 / floor else "SLOWER" if times.low > floor else "NO DIFFERENCE"
    return word, f"{what}: {times_text(times.mid)} times as long as before {span}"


def _floor(result: Result, row: Result) -> float:
    """Return the A/A floor of the row's kind; of one that has none, that of the run."""
    return row["floor"] or (result["noise_floor"] or {"floor": 1.0})["floor"]


def ratio_between_runs(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Return how many times larger `over` is than `under`, whose rounds belong to different runs, so to no pairs.

    The bounds are those of Mann and Whitney: order statistics of all quotients of a value of `over` and one of `under`.
    """
    m, n = len(over), len(under)
    orders = [1] + [0] * (m * n)  # coefficients of Gauss's binomial, the product of (1 - q^(n+i)) / (1 - q^i) up to m
    for i in range(1, m + 1):
        for won in range(m * n, n + i - 1, -1):
            orders[won] -= orders[won - n - i]
        for won in range(i, m * n + 1):
            orders[won] += orders[won - i]
    mid = float(np.median(over)) / float(np.median(under))
    quotients = sorted(a / b for a in over for b in under)
    return narrowest(quotients, mid, min(m, n), [count / comb(m + n, m) for count in orders])


@click.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
def main(old: Path, new: Path) -> None:
    """Print what changed."""
    before, now = (json.loads(path.read_text(encoding="utf-8")) for path in (old, new))
    found = changes(before, now)
    for word, sentence in found:
        if word != "NO DIFFERENCE":
            click.echo(f"{word:12} {sentence}")
    for key in _MACHINE:
        if before["environment"][key] != now["environment"][key]:
            click.echo(f"the machines differ in {key}: {before['environment'][key]}, {now['environment'][key]}")
    moved = sum(word in ("FASTER", "SLOWER") for word, _ in found)
    click.echo(f"{moved} of {len(found)} rows changed beyond noise")


if __name__ == "__main__":
    main()
