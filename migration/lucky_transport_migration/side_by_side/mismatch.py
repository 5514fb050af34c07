"""What a test fails with where two transports answered differently.

The message stands alone: what differs, where, both values, what was equal before it and what was not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from lucky_transport_migration.commands_parity.outcome import CallDifference
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.event import Found

__all__ = ["Mismatch"]


class Mismatch(AssertionError):
    """The first difference between two transports; `found` is where."""

    def __init__(self, found: Found, names: tuple[str, str], counts: ComparisonCounts) -> None:
        super().__init__("\n".join(_lines(found, names, counts)))
        self.found = found


def _lines(found: Found, names: tuple[str, str], counts: ComparisonCounts) -> Iterator[str]:
    left, right = names
    if isinstance(found, CallDifference):
        yield f"{left} and {right} answer {found.method} differently"
        rows = {"call": str(found.call), "field": found.path, "request": found.request}
    else:
        yield f"{left} and {right} differ in {found.event} {found.step}"
        rows = {"step": str(found.step), "field": found.field}
        rows |= {} if found.env is None else {"env": str(found.env)}
        rows |= {"index": str(list(found.index))} if found.index else {}
    rows |= {name: repr(value) for name, value in found.values.items()}
    width = max(map(len, rows))
    yield from (f"  {name.ljust(width)}  {text}" for name, text in rows.items())
    yield f"equal before it: {counts.sentence}"
    for what, why in counts.not_compared.items():
        yield f"not compared: {what} ({why})"
