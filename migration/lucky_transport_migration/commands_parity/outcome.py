"""The outcome of a proof: per method what was called, how it was answered, and the first difference.

Rule 1: a method counts as proven only where requests were accepted; the sentence says which were not.
Rule 2: what was not compared is listed with the reason.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.messages.methods import Method
from lucky_transport_migration.commands_parity.equality import NOT_COMPARED, Unequal

__all__ = ["CallDifference", "CommandsParity", "MethodCounts"]

_LONGEST = 300
_BEFORE = 60


@dataclass(frozen=True, slots=True)
class CallDifference:
    """The first request of a method that was answered differently. `call` numbers all requests of the proof from 0.

    path: where in the answer. values: what each side has there. request: as text.
    """

    method: str
    call: int
    what: str
    path: str
    values: dict[str, Any]
    request: str

    @classmethod
    def of(
        cls, method: Method, call: int, what: str, names: tuple[str, str], found: Unequal, request: Any
    ) -> CallDifference:
        """Return the difference with every value as JSON can carry it."""
        values = dict(zip(names, _shown(found.left, found.right), strict=True))
        return cls(method.name, call, what, found.path, values, _short(repr(request)))

    def sentence(self) -> str:
        """Return it as one sentence."""
        values = ", ".join(f"{name} {value!r}" for name, value in self.values.items())
        return f"{self.path} of {self.method} differs in call {self.call} ({self.what}): {values}; {self.request}"


@dataclass(slots=True)
class MethodCounts:
    """Calls of one method, by how they were answered. `equal`: those answered alike by all."""

    calls: int = 0
    equal: int = 0
    accepted: int = 0
    refused: int = 0
    raised: int = 0
    first_difference: CallDifference | None = None


@dataclass(slots=True)
class CommandsParity:
    """The outcome; `equal` only when every answer was. `lost` says which connection ended the proof early, if any did.

    methods: by full name, in the order of the table.
    """

    between: list[str]
    methods: dict[str, MethodCounts] = field(default_factory=dict[str, MethodCounts])
    lost: str = ""

    @property
    def equal(self) -> bool:
        """True when something was compared, and nothing differed."""
        return self.calls > 0 and not self.lost and all(row.equal == row.calls for row in self.methods.values())

    @property
    def calls(self) -> int:
        """All requests that were made, on each transport."""
        return sum(row.calls for row in self.methods.values())

    @property
    def never_accepted(self) -> list[str]:
        """Methods none of whose requests the engine accepted."""
        return [name for name, row in self.methods.items() if not row.accepted]

    @property
    def first_difference(self) -> CallDifference | None:
        """The earliest difference of all; what follows it may follow from it."""
        found = [row.first_difference for row in self.methods.values() if row.first_difference is not None]
        return min(found, key=lambda one: one.call, default=None)

    @property
    def sentence(self) -> str:
        """The outcome as one sentence."""
        if self.equal:
            return f"EQUAL: all {self.calls:,} requests to {len(self.methods)} methods are answered alike."
        first = self.first_difference
        return f"DIFFERENT: {first.sentence() if first else self.lost or 'nothing was compared'}"

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        first = self.first_difference
        return {
            "equal": self.equal,
            "between": self.between,
            "calls": self.calls,
            "lost": self.lost,
            "methods": {name: asdict(row) for name, row in self.methods.items()},
            "never_accepted": self.never_accepted,
            "not_compared": [{"what": row.what, "why": row.why} for row in NOT_COMPARED],
            "first_difference": None if first is None else asdict(first),
        }


def _shown(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values as JSON values; of long texts the part around the first difference."""
    if not (isinstance(left, str) and isinstance(right, str)) or max(len(left), len(right)) <= _LONGEST:
        return _plain(left), _plain(right)
    same = next((at for at, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    start = max(same - _BEFORE, 0)
    lead = f"... from character {start:,}: " if start else ""
    return _short(lead + left[start:]), _short(lead + right[start:])


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _short(value if isinstance(value, str) else repr(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"
