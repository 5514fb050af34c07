"""Messages of AgentService: commands, by which a policy is told what to do, such as a forward speed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages.geometry import EntityId
from lucky_transport.messages.scalars import F32, U32

__all__ = [
    "GetPolicyCommandBoolRequest",
    "GetPolicyCommandFloatRequest",
    "PolicyCommandBoolValue",
    "PolicyCommandFloatValue",
    "PolicyCommandIdEntry",
    "PolicyCommandType",
    "SetPolicyCommandBoolRequest",
    "SetPolicyCommandFloatRequest",
]


class PolicyCommandType(IntEnum):
    """Type of a policy's command or of a motion graph's input."""

    FLOAT = 0
    BOOL = 1
    INT = 2
    UINT = 3
    VEC2 = 4
    VEC3 = 5
    VEC4 = 6
    STRING = 7


@dataclass(slots=True)
class PolicyCommandIdEntry:
    """A command that a policy understands; calls name it by `id`."""

    id: U32 = 0
    name: str = ""
    type: Annotated[PolicyCommandType, "i32"] = PolicyCommandType.FLOAT


@dataclass(slots=True)
class SetPolicyCommandFloatRequest:
    """Tells a policy what to do, as a number in the command's own unit (a forward speed in m/s, for instance).

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0
    value: F32 = 0.0


@dataclass(slots=True)
class SetPolicyCommandBoolRequest:
    """Tells a policy what to do, as yes or no.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0
    value: bool = False


@dataclass(slots=True)
class GetPolicyCommandFloatRequest:
    """Asks for the present value of a command that is a number.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0


@dataclass(slots=True)
class PolicyCommandFloatValue:
    """The command's value in its own unit, or why there is none."""

    success: bool = False
    value: F32 = 0.0
    message: str = ""


@dataclass(slots=True)
class GetPolicyCommandBoolRequest:
    """Asks for the present value of a command that is yes or no.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0


@dataclass(slots=True)
class PolicyCommandBoolValue:
    """The command's value, or why there is none."""

    success: bool = False
    value: bool = False
    message: str = ""
