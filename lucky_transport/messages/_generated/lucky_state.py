"""The state of one environment, taken and put back: what searching and debugging a simulation need.

Generated from proto/lucky_state.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucky_transport.messages.scalars import U32

__all__ = ["GetStateRequest", "GetStateResponse", "SetStateRequest", "SetStateResponse"]


@dataclass(slots=True)
class GetStateRequest:
    """Asks for the state of an env."""

    env: U32 = 0


@dataclass(slots=True)
class GetStateResponse:
    """All that the env's course depends on; `SetState` takes it back."""

    state: bytes = b""


@dataclass(slots=True)
class SetStateRequest:
    """Puts an env into a state that `GetState` gave of an env of the same engine."""

    env: U32 = 0
    state: bytes = b""


@dataclass(slots=True)
class SetStateResponse:
    """What is observed in that state: one row of the spec's observation."""

    observation: bytes = b""  # One row of the spec's observation.
