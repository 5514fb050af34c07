"""What a test fails with where two transports answered differently.

The message stands alone: what differs, where, both values, what was equal before it and what was not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from lucky_transport_migration.compare.difference import AtCall, LocatedDifference
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts


class Mismatch(AssertionError):
    """The first difference between two transports; `found` is where."""

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
