"""What was compared side by side, counted per test and summed up for a session; and what a test fails with.

Counts travel between processes as plain values, so that workers' counts reach who reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.compare.difference import AtCall, LocatedDifference


@dataclass(slots=True)
class ComparisonCounts:
    """Exchanges, calls and values compared, what differed as sentences, and what was left out as what -> why."""

    tests: int = 0
    exchanges: int = 0
    calls: int = 0
    values: int = 0
    differences: list[str] = field(default_factory=list[str])
    not_compared: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def events(self) -> int:
        """Exchanges and calls together."""
        return self.exchanges + self.calls

    @property
    def sentence(self) -> str:
        """What was compared, in words."""
        parts = [plural(self.exchanges, "exchange"), plural(self.calls, "call"), plural(self.values, "value")]
        return f"{parts[0]} and {parts[1]} ({parts[2]})"

    def merge(self, plain: Mapping[str, Any]) -> None:
        """Add other counts, given as `plain` returns them."""
        for name in ("tests", "exchanges", "calls", "values"):
            setattr(self, name, getattr(self, name) + plain[name])
        self.differences += plain["differences"]
        self.not_compared = {**plain["not_compared"], **self.not_compared}

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


class Mismatch(AssertionError):
    """The first difference between two transports; `found` is where.

    Its text stands alone: what differs, where, both values, what was equal before it and what was not compared.
    """

    def __init__(self, found: LocatedDifference, counts: ComparisonCounts) -> None:
        super().__init__("\n".join(_lines(found, counts)))
        self.found = found


def _lines(found: LocatedDifference, counts: ComparisonCounts) -> Iterator[str]:
    (left, right), difference, place = found.names, found.difference, found.place
    if isinstance(place, AtCall):
        yield f"{left} and {right} answer {place.method} differently"
        rows = {"call": str(place.call), "field": difference.where, "request": place.request}
    else:
        yield f"{left} and {right} differ in exchange {place.exchange} ({place.event})"
        rows = {"exchange": str(place.exchange), "field": difference.where}
        rows |= {} if difference.env is None else {"env": str(difference.env)}
        rows |= {"index": str(list(difference.index))} if difference.index else {}
    rows |= {name: repr(value) for name, value in found.values.items()}
    width = max(map(len, rows))
    yield from (f"  {name.ljust(width)}  {text}" for name, text in rows.items())
    yield f"equal before it: {counts.sentence}"
    for what, why in counts.not_compared.items():
        yield f"not compared: {what} ({why})"
