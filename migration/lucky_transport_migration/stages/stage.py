"""The stages of a method on its way from gRPC to shared memory, and who answers in each: one table.

    grpc -> shadow -> canary 1% -> canary 10% -> canary 50% -> shm -> complete

GRPC has the last word until `shm`; in a canary shared memory has it for the given share of the calls. A shadow is asked
only for methods that change nothing (see effects.py); this table says who it would be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import total_ordering


class Stage(StrEnum):
    """How far one method has moved."""

    GRPC = "grpc"
    SHADOW = "shadow"
    CANARY = "canary"
    SHM = "shm"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Roles:
    """Which transport answers, and which one may be asked as well ("" = none)."""

    primary: str
    shadow: str = ""


#: Per stage the roles of its calls. In a canary these are the calls of its share; the others go as in `shadow`.
ROLES: dict[Stage, Roles] = {
    Stage.GRPC: Roles("grpc"),
    Stage.SHADOW: Roles("grpc", "shm"),
    Stage.CANARY: Roles("shm", "grpc"),
    Stage.SHM: Roles("shm", "grpc"),
    Stage.COMPLETE: Roles("shm"),
}

#: How placements are spelt, for hints.
PLACEMENTS = "grpc, shadow, canary 10% (any share), shm or complete"

_ORDER = list(Stage)
_CANARY = re.compile(r"canary\s+(\d+(?:\.\d+)?)\s*%?")


@total_ordering
@dataclass(frozen=True, slots=True)
class Placement:
    """A stage, for a canary with its share of the calls in percent (else 0); larger ones are farther along."""

    stage: Stage
    percent: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a canary of nothing or of everything, and for a share in another stage."""
        if self.stage is Stage.CANARY:
            if not 0 < self.percent < 100:
                raise ValueError(f"canary {self.percent:g}%: expected more than 0 and less than 100 percent")
        elif self.percent:
            raise ValueError(f"{self.stage} has no share, got {self.percent:g} percent")

    @classmethod
    def parse(cls, text: object) -> Placement:
        """Return the placement that a text spells: a stage's name, "canary 10%" for a canary; raises ValueError."""
        spelt = text.strip().lower() if isinstance(text, str) else ""
        if spelt in _ORDER and spelt != Stage.CANARY:
            return cls(Stage(spelt))
        if share := _CANARY.fullmatch(spelt):
            return cls(Stage.CANARY, float(share[1]))
        raise ValueError(f"{text!r} is no stage: expected {PLACEMENTS}")

    @property
    def share(self) -> float:
        """The share of the calls that this stage's own roles count for, from 0 to 1."""
        return self.percent / 100 if self.stage is Stage.CANARY else 1.0

    @property
    def following(self) -> Placement:
        """The next rung of the ladder; the last one has itself."""
        return next((rung for rung in LADDER if rung > self), LADDER[-1])

    @property
    def fallback(self) -> Placement:
        """Where a method goes at once when something is wrong with it: back to where gRPC answers every call."""
        return Placement(Stage.SHADOW) if self > Placement(Stage.SHADOW) else Placement(Stage.GRPC)

    def __str__(self) -> str:
        return f"canary {self.percent:.15g}%" if self.stage is Stage.CANARY else str(self.stage)

    def __lt__(self, other: Placement) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[int, float]:
        return _ORDER.index(self.stage), self.percent


#: The steps of a promotion, in their order.
LADDER = (
    Placement(Stage.GRPC),
    Placement(Stage.SHADOW),
    *(Placement(Stage.CANARY, percent) for percent in (1.0, 10.0, 50.0)),
    Placement(Stage.SHM),
    Placement(Stage.COMPLETE),
)
