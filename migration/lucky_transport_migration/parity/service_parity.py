"""The outcome of a proof of a service of a team's own: that of typed calls, and what such a proof alone can find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import LocatedDifference
from lucky_transport_migration.evidence.tally import gaps_of
from lucky_transport_migration.parity.call_parity import CommandsParity
from lucky_transport_migration.units import times_text

_UNSEEN: Mapping[str, str] = {
    "bits of a NaN in a message": "a NaN equals every NaN",
    "the order of different keys of metadata": "gRPC promises none",
    "what a handler does when its deadline comes": "a comparison waits for no deadline",
    "the end of a cancelled call": "only the responses before it are compared; how far a handler runs is chance",
    "whether a call was made once": "no answer tells where a server is in the same state after it was made twice",
}


@dataclass(slots=True)
class ServiceParity(CommandsParity):
    """rows: the methods that were called, by full name. itself: where a server differs from another one on a port.
    left: what of a recording was not called, with the reasons. late: how many calls had a deadline that was over.
    """

    rows: dict[str, ServiceMethod] = field(default_factory=dict[str, ServiceMethod])
    itself: dict[str, LocatedDifference] = field(default_factory=dict[str, LocatedDifference])
    left: dict[str, str] = field(default_factory=dict[str, str])
    late: int = 0

    @property
    def not_offered(self) -> list[str]:
        """None: what is described has to be there."""
        return []

    @property
    def table(self) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        """The heads and rows of what was called, with how many times as long it took as over gRPC."""
        heads, rows = super(ServiceParity, self).table
        more = ([_span(one.times(pairs)) for pairs in (one.took, one.firsts)] for one in self.methods.values())
        return (*heads, "× as long", "× to the first item"), [(*row, *it) for row, it in zip(rows, more, strict=True)]

    @property
    def offer(self) -> str:
        """Which streams send their first item later in shared memory, "" for none; that is no difference."""
        found = [(name, one.times(one.firsts)) for name, one in self.methods.items()]
        slow = [f"{name}: its first item comes {_span(it)} times as late" for name, it in found if it and it[0] > 1]
        return "; ".join(slow)

    @property
    def unaccepted(self) -> str:
        """The verdict on methods of which nothing was compared, "" where there is none."""
        never = ", ".join(name for name, row in self.methods.items() if not row.compared)
        nothing = f"NOTHING COMPARED: {never}: no call of it could be compared." if never else ""
        return nothing or super(ServiceParity, self).unaccepted

    @property
    def not_compared(self) -> dict[str, str]:
        """What was not compared, with the reasons."""
        found = {what: why for name in self.methods for what, why in self.not_compared_in(name).items()}
        return {**found, **self.left, **_UNSEEN}

    def not_compared_in(self, name: str) -> dict[str, str]:
        """What was not compared in the answers of one method, with the reasons."""
        row = self.methods[name]
        gaps = gaps_of(name, row)
        if name in self.itself:
            gaps["whether transports differ"] = f"the server differs from itself: {self.itself[name].sentence()}"
        if row.accepted * 10 < row.compared:
            gaps[f"most of {name}"] = f"it took {row.accepted:,} of {plural(row.compared, 'call')}; record a program"
        return gaps if row.compared else {**gaps, name: "no call of it could be compared"}

    @property
    def sentence(self) -> str:
        """The outcome as one sentence."""
        if self.first_difference is None and self.itself and not self.lost:
            names = ", ".join(name.rpartition(".")[2] for name in self.itself)
            return (
                f"NOT COMPARED: the server differs from itself in {names}, asked the same on two ports. Make it answer "
                "the same, or name in [parity.fields] what differs."
            )
        text = super(ServiceParity, self).sentence
        return f"{text}\n{self.lost}" if self.lost and self.lost not in text else text

    def look(self, name: str, ended: str) -> None:
        """Say it where a server has ended, and how: nothing can be compared any more."""
        if ended and not self.lost:
            self.lost = f"a server ended in calls of {name}: {ended}"

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        itself = {name: found.plain() for name, found in self.itself.items()}
        times = {
            name: {"call": one.times(one.took), "first_item": one.times(one.firsts)}
            for name, one in self.methods.items()
        }
        return super(ServiceParity, self).plain() | {"itself": itself or None, "late": self.late, "times": times}


def _span(times: tuple[float, float] | None) -> str:
    return "-" if times is None else f"{times_text(times[0])} to {times_text(times[1])}"
