"""AgentService: the motion graph of a robot.

An input takes values of its own type; a whole number does for a float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    FireMotionGraphTriggerRequest,
    GetMotionGraphActiveRequest,
    GetMotionGraphActiveResponse,
    GetMotionGraphInputRequest,
    GetMotionGraphInputResponse,
    MotionGraphInputValue,
    SetMotionGraphActiveRequest,
    SetMotionGraphInputRequest,
    Vec3,
)
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_mujoco.lookup import Refused, acknowledged, controller_of
from lucky_transport_mujoco.motion_graph import INPUTS
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["motion_graph_handlers"]

_PREFIX = "/hazel.rpc.AgentService/"


def motion_graph_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def set_active(request: SetMotionGraphActiveRequest) -> None:
        controller = controller_of(world, request.entity)
        if controller.graph.active != request.active:
            controller.graph.active = request.active
            controller.graph.begin()
            world.controllers.changed(controller)

    def get_active(request: GetMotionGraphActiveRequest) -> GetMotionGraphActiveResponse:
        try:
            return GetMotionGraphActiveResponse(True, controller_of(world, request.entity).graph.active)
        except Refused as refusal:
            return GetMotionGraphActiveResponse(False, False, str(refusal))

    def set_input(request: SetMotionGraphInputRequest) -> None:
        graph = controller_of(world, request.entity).graph
        value = _checked(request.input_id, request.value)
        if value.trigger:
            graph.fire()
        elif value.trigger is None:
            graph.inputs[request.input_id] = value

    def get_input(request: GetMotionGraphInputRequest) -> GetMotionGraphInputResponse:
        """Answer with the value in the input's own type, whatever the hint."""
        try:
            graph = controller_of(world, request.entity).graph
            _known(request.input_id)
        except Refused as refusal:
            return GetMotionGraphInputResponse(False, None, str(refusal))
        return GetMotionGraphInputResponse(True, replace(graph.inputs[request.input_id]))

    def fire(request: FireMotionGraphTriggerRequest) -> None:
        graph = controller_of(world, request.entity).graph
        name, field = _known(request.input_id)
        if field != "trigger":
            raise Refused(f"input {request.input_id} ({name}) is no trigger; set it by SetMotionGraphInput")
        graph.fire()

    return {
        _PREFIX + "SetMotionGraphActive": acknowledged(set_active),
        _PREFIX + "GetMotionGraphActive": get_active,
        _PREFIX + "SetMotionGraphInput": acknowledged(set_input),
        _PREFIX + "GetMotionGraphInput": get_input,
        _PREFIX + "FireMotionGraphTrigger": acknowledged(fire),
    }


def _known(input_id: int) -> tuple[str, str]:
    """Return the name of an input and the field that holds its value; raises Refused."""
    if input_id not in INPUTS:
        there = ", ".join(f"{number} ({name})" for number, (name, _) in INPUTS.items())
        raise Refused(f"the motion graph has no input {input_id}; there are {there}")
    return INPUTS[input_id]


def _checked(input_id: int, value: MotionGraphInputValue | None) -> MotionGraphInputValue:
    """Return a copy of `value` in the type of the input; raises Refused."""
    name, field = _known(input_id)
    names = one_of_fields(MotionGraphInputValue)
    given = next((each for each in names if value is not None and getattr(value, each) is not None), "")
    if value is None or given != field:
        if value is not None and (given, field) == ("int_val", "float_val"):
            return MotionGraphInputValue(float_val=float(value.int_val or 0))
        raise Refused(f"input {input_id} ({name}) takes {field}, not {given or 'nothing'}")
    if given == "vec3_val":
        found = MotionGraphInputValue(vec3_val=replace(value.vec3_val or Vec3()))
    else:
        found = replace(MotionGraphInputValue(), **{given: getattr(value, given)})
    vector = found.vec3_val or Vec3()
    if not all(math.isfinite(number) for number in (found.float_val or 0.0, vector.x, vector.y, vector.z)):
        raise Refused(f"input {input_id} ({name}) is set to a number that is not finite")
    return found
