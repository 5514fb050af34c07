"""The outcome of a proof of a service of a team's own: that of typed calls, and what such a proof alone can find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import LocatedDifference
from lucky_transport_migration.compare.rules import BUILT_IN
from lucky_transport_migration.parity.call_parity import CommandsParity

__all__ = ["ServiceParity"]

_UNSEEN: Mapping[str, str] = {
    "bits of a NaN in a message": "a NaN equals every NaN",
    "what a handler does when its deadline comes": "a comparison waits for no deadline",
    "the end of a call that was cancelled": "only the responses are compared that came before",
    "whether a call was made once": "no answer tells where a server is in the same state after it was made twice",
}


@dataclass(slots=True)
class ServiceParity(CommandsParity):
    """rows: the methods that were called, by full name. itself: where a server differs from another one on a port.
    uncompared: how many answers of a method could not be compared, by the reason. left: what of a recording was not
    called, with the reasons. late: how many calls had a deadline that was over.
    """

    rows: dict[str, ServiceMethod] = field(default_factory=dict[str, ServiceMethod])
    itself: dict[str, LocatedDifference] = field(default_factory=dict[str, LocatedDifference])
    uncompared: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    left: dict[str, str] = field(default_factory=dict[str, str])
    late: int = 0

    @property
    def equal(self) -> bool:
        """True when each method was compared, and nothing differed."""
        rows = self.methods.values()
        return bool(rows) and not self.lost and all(row.calls and row.equal == row.calls for row in rows)

    @property
    def not_compared(self) -> dict[str, str]:
        """What no call was compared in, with the reasons."""
        names = [name for name, row in self.methods.items() if not row.calls]
        skipped = {key: rule.skip for key, rule in self.rules.rows.items() if rule.skip and key not in BUILT_IN}
        return {**skipped, **self.left, **_UNSEEN, **dict.fromkeys(names, "no call of it could be compared")}

    def not_compared_in(self, name: str) -> dict[str, str]:
        """What was not compared in the answers of one method, with the reasons."""
        row = self.rows[name]
        left_out = self.rules.left_out(row.response, streamed=row.stream is not None)
        gaps = {key: self.rules.rows[key].skip for key in left_out}
        gaps |= {plural(count, "answer"): why for why, count in self.uncompared.get(name, Counter()).items()}
        if name in self.itself:
            gaps["whether transports differ"] = f"the server differs from itself: {self.itself[name].sentence()}"
        if not self.methods[name].accepted:
            gaps["what it answers to a request it accepts"] = "the server accepted none"
        return gaps

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

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        itself = {name: found.plain() for name, found in self.itself.items()}
        return super(ServiceParity, self).plain() | {"itself": itself or None, "late": self.late}
