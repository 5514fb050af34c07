"""AgentService: robot controllers and motion graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.errors import UnknownName
from lucky_transport.messages import (
    FireMotionGraphTriggerRequest,
    GetMotionGraphActiveRequest,
    GetMotionGraphActiveResponse,
    GetMotionGraphInputRequest,
    GetMotionGraphInputResponse,
    GetRobotControllerRequest,
    GetRobotControllerResponse,
    ListRobotControllersRequest,
    ListRobotControllersResponse,
    MotionGraphInputValue,
    PolicySlotSummary,
    RobotControllerSummary,
    SetMotionGraphActiveRequest,
    SetMotionGraphInputRequest,
    StreamPolicySlotStateRequest,
    StreamRobotControllerRequest,
    Vec3,
)
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_mujoco.control.controllers import Controller
from lucky_transport_mujoco.control.motion_graph import INPUTS
from lucky_transport_mujoco.lookup import (
    Refused,
    acknowledged,
    answered,
    controller_of,
    find_controller,
    rate_hz,
    slot_of,
)
from lucky_transport_mujoco.world import MujocoWorlds

T = TypeVar("T")

_PREFIX = "/hazel.rpc.AgentService/"


def controller_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def list_all(_: ListRobotControllersRequest) -> ListRobotControllersResponse:
        return ListRobotControllersResponse([world.controllers.of(env).summary() for env in range(world.num_envs)])

    def get(request: GetRobotControllerRequest) -> GetRobotControllerResponse:
        found = find_controller(world, request.entity)
        return GetRobotControllerResponse(False) if found is None else GetRobotControllerResponse(True, found.summary())

    return {_PREFIX + "ListRobotControllers": list_all, _PREFIX + "GetRobotController": get}


def controller_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the streams' handlers, by full method name."""

    def stream(request: StreamRobotControllerRequest, call: Call) -> Iterator[RobotControllerSummary]:
        controller = _named(lambda: controller_of(world, request.entity))
        yield from _states(controller, rate_hz(request.target_fps), call)

    def stream_slot(request: StreamPolicySlotStateRequest, call: Call) -> Iterator[PolicySlotSummary]:
        controller, slot = _named(lambda: slot_of(world, request.entity, request.slot_id))
        for state in _states(controller, rate_hz(request.target_fps), call):
            yield next(each for each in state.slots if each.slot_id == slot.slot_id)

    return {_PREFIX + "StreamRobotController": stream, _PREFIX + "StreamPolicySlotState": stream_slot}


def _named(find: Callable[[], T]) -> T:
    try:  # a stream's response has no field for a refusal
        return find()
    except Refused as refusal:
        raise UnknownName(str(refusal)) from None


def _states(controller: Controller, hz: int, call: Call) -> Iterator[RobotControllerSummary]:
    """Yield the state at each tick, or instead all states since the tick before: no subscriber misses a change."""
    with call.between_steps():
        changes = controller.watch()
    try:
        for _ in call.ticks(hz):
            with call.between_steps():
                states = changes.take() or [controller.summary()]
            yield from states
    finally:
        controller.unwatch(changes)


def motion_graph_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def set_active(request: SetMotionGraphActiveRequest) -> None:
        controller = controller_of(world, request.entity)
        if controller.graph.active != request.active:
            controller.graph.active = request.active
            controller.graph.begin()
            world.controllers.changed(controller)

    def get_active(request: GetMotionGraphActiveRequest) -> GetMotionGraphActiveResponse:
        return GetMotionGraphActiveResponse(True, controller_of(world, request.entity).graph.active)

    def set_input(request: SetMotionGraphInputRequest) -> None:
        graph = controller_of(world, request.entity).graph
        value = _checked(request.input_id, request.value)
        if value.trigger:
            graph.fire()
        elif value.trigger is None:
            graph.inputs[request.input_id] = value

    def get_input(request: GetMotionGraphInputRequest) -> GetMotionGraphInputResponse:
        """Answer with the value in the input's own type, whatever the hint."""
        graph = controller_of(world, request.entity).graph
        _known(request.input_id)
        return GetMotionGraphInputResponse(True, replace(graph.inputs[request.input_id]))

    def fire(request: FireMotionGraphTriggerRequest) -> None:
        graph = controller_of(world, request.entity).graph
        name, field = _known(request.input_id)
        if field != "trigger":
            raise Refused(f"input {request.input_id} ({name}) is no trigger; set it by SetMotionGraphInput")
        graph.fire()

    return {
        _PREFIX + "SetMotionGraphActive": acknowledged(set_active),
        _PREFIX + "GetMotionGraphActive": answered(
            get_active, lambda text: GetMotionGraphActiveResponse(False, False, text)
        ),
        _PREFIX + "SetMotionGraphInput": acknowledged(set_input),
        _PREFIX + "GetMotionGraphInput": answered(
            get_input, lambda text: GetMotionGraphInputResponse(False, None, text)
        ),
        _PREFIX + "FireMotionGraphTrigger": acknowledged(fire),
    }


def _known(input_id: int) -> tuple[str, str]:
    """Return the name of an input and the field that holds its value; raises Refused."""
    if input_id not in INPUTS:
        there = ", ".join(f"{number} ({name})" for number, (name, _) in INPUTS.items())
        raise Refused(f"the motion graph has no input {input_id}; there are {there}")
    return INPUTS[input_id]


def _checked(input_id: int, value: MotionGraphInputValue | None) -> MotionGraphInputValue:
    """Return a copy of `value` in the type of the input, a whole number as a float if need be; raises Refused."""
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
