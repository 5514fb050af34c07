"""Stepping a whole batch of environments in one call: what the legacy protocol cannot say.

Generated from proto/lucky_batch.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages._generated.agent import SimulationContract
from lucky_transport.messages.scalars import U64, no_items

__all__ = ["SetResetOptionsRequest", "SetResetOptionsResponse", "SetSeedsRequest", "SetSeedsResponse"]


@dataclass(slots=True)
class SetSeedsRequest:
    """Seeds for the next reset, one per env; `mask` (one byte per env, empty = all) says which of them count."""

    seeds: list[U64] = field(default_factory=no_items)  # One per environment, also for those that the mask leaves out.
    mask: bytes = b""  # One byte per environment, 0 = leave this one alone; empty = seed all.


@dataclass(slots=True)
class SetSeedsResponse:
    """Whether the engine takes seeds, else why not."""

    success: bool = False
    message: str = ""  # Why not, if success is false.


@dataclass(slots=True)
class SetResetOptionsRequest:
    """Randomisation and other options for the envs reset next; `options_json` is a JSON object ("" = none).

    With neither, resets are as before the first such call.
    """

    # What the reset draws at random, as in ResetAgentRequest of the legacy protocol. Absent = the engine's defaults.
    contract: SimulationContract | None = None
    options_json: str = ""  # Further options as one JSON object, passed on to the engine as they are; empty = none.


@dataclass(slots=True)
class SetResetOptionsResponse:
    """Whether the engine took the options, else why not."""

    success: bool = False
    message: str = ""  # Why not, if success is false.
