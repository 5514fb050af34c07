"""A call that a proof has made on both sides, and what it showed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from lucky_transport_migration.compare.difference import AtCall, Difference, LocatedDifference
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, Evidence


class _Shown(Protocol):
    @property
    def text(self) -> str: ...


Call = TypeVar("Call", bound=_Shown)


@dataclass(frozen=True, slots=True)
class AskedCall(Generic[Call]):
    """The call, which says itself as `text`, and the evidence of it."""

    call: Call
    evidence: Evidence

    @property
    def differs(self) -> bool:
        """True where both did not answer alike."""
        return self.evidence.verdict in (DIFFERENT, FAILED)

    @property
    def is_gone(self) -> bool:
        """True where the connection to one of them was lost."""
        sides = (self.evidence.primary, self.evidence.shadow)
        return any(one is not None and one.local and one.code == "UNAVAILABLE" for one in sides)

    def located(self, number: int, what: str, names: tuple[str, str] | None = None) -> LocatedDifference:
        """Return the difference as a report shows it; see `located`."""
        return located(self.evidence, number, what, self.call.text, names)


def located(
    evidence: Evidence, number: int, what: str, request: str, names: tuple[str, str] | None = None
) -> LocatedDifference:
    """Return the difference of the call of that number. names: of the sides, other than those of their transports."""
    (left, mine), (right, other) = evidence.values.items()
    found = Difference(evidence.aspect, evidence.where, mine, other)
    return LocatedDifference(found, names or (left, right), AtCall(evidence.method, number, what, request))
