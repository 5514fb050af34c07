"""AgentService: the robot controllers and their slots, as answers and as streams.

A stream sends the present state at once, then at its rate; every change in between is sent too, in order, so that
no subscriber misses one. A stream's response has no field for a refusal: an unknown entity or slot raises
UnknownName.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.errors import UnknownName
from lucky_transport.messages import (
    GetRobotControllerRequest,
    GetRobotControllerResponse,
    ListRobotControllersRequest,
    ListRobotControllersResponse,
    PolicySlotSummary,
    RobotControllerSummary,
    StreamPolicySlotStateRequest,
    StreamRobotControllerRequest,
)
from lucky_transport_mujoco.controllers import Controller
from lucky_transport_mujoco.lookup import Refused, controller_of, find_controller, slot_of
from lucky_transport_mujoco.rates import rate_hz
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["controller_handlers", "controller_streams"]

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
    try:
        return find()
    except Refused as refusal:
        raise UnknownName(str(refusal)) from None


def _states(controller: Controller, hz: int, call: Call) -> Iterator[RobotControllerSummary]:
    """Yield the state at each tick, or instead all states that it went through since the tick before."""
    with call.between_steps():
        changes = controller.watch()
    try:
        for _ in call.ticks(hz):
            with call.between_steps():
                states = changes.take() or [controller.summary()]
            yield from states
    finally:
        controller.unwatch(changes)
