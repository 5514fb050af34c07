"""Messages of AgentService: motion graphs, the animation logic of a robot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from lucky_transport.messages.geometry import EntityId, Vec3
from lucky_transport.messages.policy_commands import PolicyCommandType
from lucky_transport.messages.scalars import F32, I32, U32, one_of

__all__ = [
    "FireMotionGraphTriggerRequest",
    "GetMotionGraphActiveRequest",
    "GetMotionGraphActiveResponse",
    "GetMotionGraphInputRequest",
    "GetMotionGraphInputResponse",
    "MotionGraphInputValue",
    "SetMotionGraphActiveRequest",
    "SetMotionGraphInputRequest",
]


@one_of("bool_val", "int_val", "float_val", "vec3_val", "trigger")
@dataclass(slots=True)
class MotionGraphInputValue:
    """Value of an input; the field of the input's type is given, the others are None.

    trigger: True fires it, as FireMotionGraphTrigger does.
    """

    bool_val: bool | None = None
    int_val: I32 | None = None
    float_val: F32 | None = None
    vec3_val: Vec3 | None = None
    trigger: bool | None = None


@dataclass(slots=True)
class SetMotionGraphActiveRequest:
    """Switches a robot's motion graph on or off."""

    entity: EntityId | None = None
    active: bool = False


@dataclass(slots=True)
class GetMotionGraphActiveRequest:
    """Asks whether a robot's motion graph is on."""

    entity: EntityId | None = None


@dataclass(slots=True)
class GetMotionGraphActiveResponse:
    """Whether the motion graph is on, or why there is no answer."""

    success: bool = False
    active: bool = False
    message: str = ""


@dataclass(slots=True)
class SetMotionGraphInputRequest:
    """Sets one input of a robot's motion graph; no method lists the inputs, their ids come from the graph's author."""

    entity: EntityId | None = None
    input_id: U32 = 0
    value: MotionGraphInputValue | None = None


@dataclass(slots=True)
class GetMotionGraphInputRequest:
    """Asks for the value of one input, read as `type_hint`."""

    entity: EntityId | None = None
    input_id: U32 = 0
    type_hint: Annotated[PolicyCommandType, "i32"] = PolicyCommandType.FLOAT


@dataclass(slots=True)
class GetMotionGraphInputResponse:
    """The input's value, or why there is none."""

    success: bool = False
    value: MotionGraphInputValue | None = None
    message: str = ""


@dataclass(slots=True)
class FireMotionGraphTriggerRequest:
    """Fires one trigger input of a robot's motion graph."""

    entity: EntityId | None = None
    input_id: U32 = 0
