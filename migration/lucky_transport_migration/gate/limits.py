"""What the gate asks for: `[gate]` of lucky_transport.toml.

    [gate]
    calls = 1000            # compared calls per method, at least
    mismatch_limit = 0.003  # largest mismatch rate that the upper bound may leave open
    slower_limit = 1.1      # times longer than gRPC that shared memory may take, in the middle
    tail_limit = 1.5        # and at the p99
    confidence = 0.95       # of the bounds on mismatch rate and latency, for all methods together
    aa_days = 7             # days for which an A/A run tells what noise is
    demote = true           # send a method back at its first mismatch or failure
    cool_down_s = 300.0     # seconds that it then stays back

A wrong key or value is a ConfigError that names source, key, value and remedy.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lucky_transport.config import load_table
from lucky_transport.table_readers import Readers, number, only, read_table
from lucky_transport_migration.stages.evidence_window import AA_DAYS


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force. With the defaults 1,163 calls without a mismatch suffice at the first look (see looks.py).

    calls: compared calls that each method needs. mismatch_limit: a method is held back while the upper bound of its
    mismatch rate is above it. slower_limit: how many times longer than the control the candidate may take: a method is
    held back while the upper bound of the middle ratio is above it, or above what an A/A run shows, up to 1.25.
    tail_limit: the same of the p99, which no A/A run raises. confidence: of all these bounds, for all methods that are
    judged together. aa_days: for so long an A/A run counts. demote, cool_down_s: see `demotion`.
    """

    calls: int = 1000
    mismatch_limit: float = 0.003
    slower_limit: float = 1.1
    tail_limit: float = 1.5
    confidence: float = 0.95
    aa_days: int = AA_DAYS
    demote: bool = True
    cool_down_s: float = 300.0

    @classmethod
    def load(cls, directory: Path | None = None) -> Limits:
        """Return the limits of the nearest lucky_transport.toml; raises ConfigError for a wrong one."""
        table, source = load_table("gate", directory)
        return cls(**read_table(table, source, _READERS))

    @property
    def laxer(self) -> list[str]:
        """The limits that let more pass than the defaults do, each beside its default."""
        ours, usual = asdict(self), asdict(Limits())
        more = {name: ours[name] - usual[name] for name in ours}
        found = (name for name in ours if (more[name] > 0 if name in _MORE_IS_LAXER else more[name] < 0))
        return [f"{name} {json.dumps(ours[name])} (default {json.dumps(usual[name])})" for name in found]


_MORE_IS_LAXER = {"mismatch_limit", "slower_limit", "tail_limit", "aa_days"}

_COUNT = number(lambda value: value >= 1, int)
_RATIO = number(lambda value: value >= 1)

_READERS: Readers = {
    "calls": (_COUNT, "a whole number of calls from 1, e.g. 1000"),
    "mismatch_limit": (number(lambda value: 0 < value < 1), "a rate between 0 and 1, e.g. 0.003"),
    "slower_limit": (_RATIO, "a ratio from 1, e.g. 1.1"),
    "tail_limit": (_RATIO, "a ratio from 1, e.g. 1.5"),
    "confidence": (number(lambda value: 0.5 <= value < 1), "a share from 0.5 to below 1, e.g. 0.95"),
    "aa_days": (_COUNT, "a whole number of days from 1, e.g. 7"),
    "demote": (only(lambda value: isinstance(value, bool)), "true or false"),
    "cool_down_s": (number(lambda value: value >= 0), "seconds >= 0, e.g. 300"),
}
assert list(_READERS) == [f.name for f in fields(Limits)]
