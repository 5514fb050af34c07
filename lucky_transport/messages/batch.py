"""Messages of our own additive BatchService: what a batch client needs beside the frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.agent import SimulationContract
from lucky_transport.messages.empty import no_items
from lucky_transport.messages.scalars import U64

__all__ = ["SetResetOptionsRequest", "SetResetOptionsResponse", "SetSeedsRequest", "SetSeedsResponse"]


@dataclass(slots=True)
class SetSeedsRequest:
    """Seeds for the next reset, one per env; `mask` (one byte per env, empty = all) says which of them count."""

    seeds: list[U64] = field(default_factory=no_items)
    mask: bytes = b""


@dataclass(slots=True)
class SetSeedsResponse:
    """Whether the engine takes seeds, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class SetResetOptionsRequest:
    """Randomisation and other options for the envs reset next; `options_json` is a JSON object ("" = none).

    With neither, resets are as before the first such call.
    """

    contract: SimulationContract | None = None
    options_json: str = ""


@dataclass(slots=True)
class SetResetOptionsResponse:
    """Whether the engine took the options, else why not."""

    success: bool = False
    message: str = ""
