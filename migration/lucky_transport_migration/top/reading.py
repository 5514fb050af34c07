"""One look at everything that `top` shows: engines of this host, stages of the project in the working directory."""

from __future__ import annotations

import socket
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError
from lucky_transport_migration.jsonl import Damage
from lucky_transport_migration.stages.effective_stages import EffectiveStages
from lucky_transport_migration.stages.evidence_window import EvidenceCounts
from lucky_transport_migration.stages.overview import Line, lines
from lucky_transport_migration.top.activity import ActivityMonitor, ActivityReading


@dataclass(frozen=True, slots=True)
class StagesReading:
    """The stages of one project. file: lucky_transport.toml, "" where there is none. counts: stage -> methods.

    moved: the methods that are beyond gRPC, or were seen. problem: why they cannot be read. damage: lines of evidence
    that do not count.
    """

    file: str = ""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    moved: tuple[Line, ...] = ()
    problem: str = ""
    damage: Damage = field(default_factory=Damage)


@dataclass(frozen=True, slots=True)
class TopReading:
    """What `top` shows at one moment; at: seconds since the epoch."""

    host: str
    at: float
    activity: ActivityReading
    stages: StagesReading

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "host": self.host,
            "at": self.at,
            "engines": [asdict(one) for one in self.activity.engines],
            "servers": [one.plain() for one in self.activity.servers],
            "of_other_users": self.activity.of_other_users,
            "stages": {
                "file": self.stages.file,
                "counts": self.stages.counts,
                "methods": [line.plain() for line in self.stages.moved],
                "problem": self.stages.problem,
                "damaged": self.stages.damage.plain(),
            },
        }


def read_stages(directory: Path | None = None, counts: EvidenceCounts | None = None) -> StagesReading:
    """Return the stages of the nearest lucky_transport.toml; a file that cannot be read is told, not raised.

    counts: of an earlier look, for one that looks again.
    """
    try:
        standing = EffectiveStages.load(directory)
        if not standing.plan.path.is_file():
            return StagesReading()
        counts = counts or EvidenceCounts()
        found = list(lines(standing, counts=counts))
    except (ConfigError, OSError) as error:
        return StagesReading(problem=str(error))
    by_stage = Counter(line.stage for line in found)
    moved = tuple(line for line in found if line.stage != "grpc" or line.seen)
    return StagesReading(str(standing.plan.path), dict(by_stage), moved, damage=counts.damage)


def read_top(activity: ActivityMonitor, counts: EvidenceCounts, look_s: float) -> TopReading:
    """Return what there is to show of the next `look_s` seconds."""
    seen = activity.read(look_s)
    return TopReading(socket.gethostname(), time.time(), seen, read_stages(counts=counts))
