"""What was compared side by side, counted per test and summed up for a whole session.

A counts travels between processes as plain values, so that workers' counts reach who reports. What was not compared is
kept once, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lucky_transport.errors import plural

if TYPE_CHECKING:
    from lucky_transport_migration.compare.difference import LocatedDifference


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

    def differ(self, found: LocatedDifference) -> None:
        """Keep a difference."""
        self.differences.append(found.sentence())

    def leave_out(self, what: str, why: str) -> None:
        """Say that something was not compared."""
        self.not_compared.setdefault(what, why)

    def merge(self, plain: Mapping[str, Any]) -> None:
        """Add other counts, given as `plain` returns them."""
        for name in ("tests", "exchanges", "calls", "values"):
            setattr(self, name, getattr(self, name) + plain[name])
        self.differences += plain["differences"]
        self.not_compared = {**plain["not_compared"], **self.not_compared}

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}
