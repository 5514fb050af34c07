"""One call as evidence: who answered, what the shadow answered, whether both were alike.

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "method": "/hazel.rpc.SceneService/GetEntity", "stage": "shadow",
     "kind": "live", "authority": {"transport": "grpc", "code": "OK", "us": 412.0, "items": 1}, "shadow": {...} | null,
     "verdict": "different", "aspect": "item", "where": "entity.name", "values": {"grpc": "a", "shm": "b"}, "why": "",
     "left_out": {"AgentFrame.timestamp_ms": "the wall clock"}, "request": "5f0c6b1d9a3e7728"}

A piece of evidence is one line of JSON in `<folder>/calls-<pid>.jsonl`; a process writes only its own file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from lucky_transport.errors import printable
from lucky_transport_migration.jsonl import VERSION, Damage, one_of, read_entries

#: The transport that methods move away from; any other one is the candidate.
CONTROL = "grpc"

#: Verdicts. FAILED: the candidate was unreachable, crashed or was too slow, and the other transport was not.
EQUAL, DIFFERENT, FAILED, NOT_COMPARED = "equal", "different", "failed", "not_compared"

#: Why a call is not compared, or only as far as it had come, that was under way at the end of its program.
NOT_ENDED = "it had not ended when the program did"

#: Why an answer was not compared that two servers over one transport give differently as well.
ITSELF = "the server differs from itself"

#: The stage of evidence of exchanges that were made on two engines.
EXCHANGE = "exchange"

#: The stage of evidence of calls that a proof made, on two engines or servers.
PROOF = "parity"

#: The stage of a line that is no call: `why` says what of a method a proof has compared in none.
GAP = "gap"

#: The file of what the gate looked at, beside the evidence (see gate/looks.py).
LOOKS = "looks.jsonl"


@dataclass(frozen=True, slots=True)
class SideResult:
    """What one transport answered. us: microseconds from the request to the last item; first: to the first one of a
    stream, 0 = none or not known. items: how many came. local: the caller's own side ended the call.
    """

    transport: str
    code: str = "OK"
    us: float = 0.0
    items: int = 0
    local: bool = False
    first: float = 0.0

    @property
    def is_timed(self) -> bool:
        """True where the duration tells how fast the transport is."""
        return self.code == "OK" and 0 < self.us < math.inf


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one call showed.

    kind: "live", "aa" (both sides are the same transport: what differs is noise), "replay" or "parity". aspect: what
    differs: "" (nothing), "code", "details", "trailing", "headers", "item", "order", "count" or "late" (slower than its
    deadline). where: the path of the first difference, values: what each
    transport has there, as JSON values. why: why nothing was compared. left_out: what was not looked at, such as fields
    that rules leave out, with the reasons. request: a hash of it, "" where it carries nothing or is not known. at: UTC,
    ISO 8601.
    """

    method: str
    stage: str
    primary: SideResult = field(metadata={"key": "authority"})  # as version 1 of the format calls it
    shadow: SideResult | None = None
    kind: Annotated[str, one_of("live", "aa", "replay", PROOF)] = "live"
    verdict: Annotated[str, one_of(EQUAL, DIFFERENT, FAILED, NOT_COMPARED)] = NOT_COMPARED
    aspect: str = ""
    where: str = ""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    why: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    request: str = ""
    at: str = ""

    @property
    def is_unfinished(self) -> bool:
        """True for a call that was under way at the end of its program."""
        return self.why == NOT_ENDED or NOT_ENDED in self.left_out

    @property
    def sentence(self) -> str:
        """What differed, as one sentence on one line; "" where nothing did."""
        if self.verdict not in (DIFFERENT, FAILED):
            return ""
        values = ", ".join(f"{name} {value!r}" for name, value in self.values.items())
        what = f"{self.aspect} {'differ' if self.aspect in ('details', 'headers') else 'differs'}"
        at = "" if self.where in (self.aspect, "code") else f" at {self.where}"
        if self.verdict == FAILED:
            what = f"the candidate failed ({self.aspect})"
        return printable(f"{self.method}: {what}{at}: {values}")

    def write(self) -> str:
        """Return it as a line of JSON, with its line end."""
        plain = _plain(self)
        primary = plain.pop("primary")
        lead = {"v": VERSION, "at": self.at, "method": self.method, "stage": self.stage, "authority": _plain(primary)}
        if self.shadow is not None:
            plain["shadow"] = _plain(self.shadow)
        return _encode(lead | plain) + "\n"


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def _plain(one: Evidence | SideResult) -> dict[str, Any]:
    """Return the fields as they are; a tenth of what `dataclasses.asdict` takes, which copies them."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def read_folder(folder: Path | str, damage: Damage | None = None) -> Iterator[Evidence]:
    """Yield what the processes that wrote into `folder` saw, one process after another, each in its order.

    A folder that is not there holds nothing. damage: is told of lines that were torn. Raises ConfigError as
    `read_entries`.
    """
    for path in sorted(Path(folder).glob("calls-*.jsonl")):
        for number, (_, evidence) in enumerate(read_entries(path, Evidence), 1):
            if evidence is not None:
                yield evidence
            elif damage is not None:
                damage.add(Damage(1, str(path), number))
