"""Recipes for messages whose parts have to fit each other, such as one value per actuator.

A recipe starts from what is made field by field and mends what would not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lucky_transport.messages import (
    ActionGroupEntry,
    CameraConfig,
    DebugDrawRequest,
    EntityId,
    FireMotionGraphTriggerRequest,
    GetPolicyBasePoseRequest,
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    GetPolicyLastActionRequest,
    MotionGraphInputValue,
    ObservationContract,
    ObservationTermRequest,
    Quat,
    RewardContract,
    RewardTermRequest,
    SetControlRequest,
    SetEntityTransformRequest,
    SetLidarConfigRequest,
    SetLidarReturnParamsRequest,
    SetMotionGraphInputRequest,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
    SetQposRequest,
    SetResetOptionsRequest,
    SetSeedsRequest,
    SimulationContract,
    StepRequest,
    TaskContract,
    TerminationContract,
    TerminationTermRequest,
    Transform,
    Vec3,
)
from lucky_transport.messages.fields import fields_of
from lucky_transport_migration.commands_parity.float32 import f32

if TYPE_CHECKING:
    from lucky_transport_migration.commands_parity.request_generator import RequestGenerator

__all__ = ["RECIPES"]


def _step(make: RequestGenerator) -> StepRequest:
    request = make.plain(StepRequest)
    drives = make.chance(60)
    request.actions = [make.number(-0.5, 0.5) for _ in range(make.known.action_size)] if drives else []
    request.timeout_s = 0.0
    if not make.known.cameras or make.chance(70):
        request.camera_requests = []
    if not make.known.groups or make.chance(70):
        request.action_groups = []
    return request


def _group(make: RequestGenerator) -> ActionGroupEntry:
    indices = sorted(make.some(range(make.known.action_size)))
    return ActionGroupEntry("", [make.number(-0.5, 0.5) for _ in indices], indices)


def _contract(make: RequestGenerator) -> SimulationContract:
    drawn = SimulationContract()
    for field in make.some([each for each in fields(drawn) if each.name in make.known.randomizations]):
        limits = make.known.randomizations[field.name]
        low, high = limits.range_min, min(limits.range_max, limits.range_min + 1.0)
        if isinstance(getattr(drawn, field.name), list):
            count = 3 if "3" in limits.type else 2
            setattr(drawn, field.name, sorted(make.number(low, high) for _ in range(count)))
        else:
            setattr(drawn, field.name, make.number(low, high))
    return drawn


def _task(make: RequestGenerator) -> TaskContract:
    known = make.known
    rewards = [RewardTermRequest(name, make.number()) for name in make.some(known.rewards)]
    ends = [TerminationTermRequest(name, make.chance(30)) for name in make.some(known.terminations)]
    seen = [ObservationTermRequest(name) for name in make.some(known.observations)]
    return TaskContract(
        task_id="walk",
        observations=ObservationContract(seen) if seen else None,
        rewards=RewardContract(rewards),
        terminations=TerminationContract(ends),
    )


def _transform(make: RequestGenerator) -> Transform:
    angle = make.number(-math.pi, math.pi)
    turn = Quat(0.0, 0.0, f32(math.sin(angle / 2)), f32(math.cos(angle / 2)))
    return Transform(Vec3(make.number(), make.number(), 0.5), turn, Vec3(1.0, 1.0, 1.0))


def _placed(make: RequestGenerator) -> SetEntityTransformRequest:
    ids = make.known.robots or make.known.entities or [0]
    return SetEntityTransformRequest(EntityId(make.choice(ids)), _transform(make))


def _camera_config(make: RequestGenerator) -> CameraConfig:
    config = CameraConfig(*(getattr(make.known.camera, field.name) for field in fields_of(CameraConfig)))
    config.width, config.height = make.choice((16, 32)), make.choice((16, 24))
    config.enabled = make.chance(80)
    return config


def _lidar_config(make: RequestGenerator) -> SetLidarConfigRequest:
    now = make.known.lidar
    shared = [field.name for field in fields_of(SetLidarConfigRequest) if hasattr(now, field.name)]
    request = SetLidarConfigRequest(**{name: getattr(now, name) for name in shared})
    request.sensor = make.integer(0, len(make.known.agents) - 1)
    request.channels, request.azimuth_bins = make.integer(1, 4), make.integer(1, 16)
    return request


def _lidar_returns(make: RequestGenerator) -> SetLidarReturnParamsRequest:
    now = make.known.returns
    request = SetLidarReturnParamsRequest(**{field.name: getattr(now, field.name) for field in fields_of(type(now))})
    request.noise_sigma0 = make.number(0.0, 0.1)
    for field in fields_of(SetLidarReturnParamsRequest):
        if field.optional and make.chance(50):
            setattr(request, field.name, None)
    return request


def _qpos(make: RequestGenerator) -> SetQposRequest:
    request = make.plain(SetQposRequest)
    request.bulk = []
    if make.known.nq > 7 and make.chance(50):
        request.bulk = [0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, *(make.number() for _ in range(make.known.nq - 7))]
    request.force = make.chance(80)
    return request


def _control(make: RequestGenerator) -> SetControlRequest:
    request = make.plain(SetControlRequest)
    request.bulk = [make.number() for _ in range(make.known.nu)] if make.chance(50) else []
    return request


def _command(request: type[Any], is_number: bool) -> Callable[[RequestGenerator], Any]:
    def recipe(make: RequestGenerator) -> Any:
        made = make.plain(request)
        fitting = [row for row in make.known.commands if row[2] == is_number]
        if fitting:
            made.slot_id, made.command_id, _ = make.choice(fitting)
        return made

    return recipe


def _graph_input(make: RequestGenerator) -> SetMotionGraphInputRequest:
    """One of five inputs, each with a value of the type that the reference engine's input has."""
    request = make.plain(SetMotionGraphInputRequest)
    request.value = {
        1: MotionGraphInputValue(float_val=make.number(0.0, 1.0)),
        2: MotionGraphInputValue(bool_val=make.chance(50)),
        3: MotionGraphInputValue(int_val=make.integer(0, 3)),
        4: MotionGraphInputValue(vec3_val=Vec3(make.number(-0.05, 0.05), 0.0, 0.0)),
        5: MotionGraphInputValue(trigger=True),
    }[request.input_id]
    return request


def _drawing(make: RequestGenerator) -> DebugDrawRequest:
    request = make.plain(DebugDrawRequest)
    request.clear_previous = make.chance(50)
    return request


def _seeds(make: RequestGenerator) -> SetSeedsRequest:
    return SetSeedsRequest([make.integer(0, 2**64 - 1) for _ in make.known.agents])


def _options(make: RequestGenerator) -> SetResetOptionsRequest:
    return SetResetOptionsRequest(_contract(make), make.choice(("", "{}")))


def _running(request: type[Any]) -> Callable[[RequestGenerator], Any]:
    """About the slot whose policy a round starts, mostly."""

    def recipe(make: RequestGenerator) -> Any:
        made = make.plain(request)
        if make.known.robots and make.known.slots and make.chance(70):
            made.entity, made.slot_id = EntityId(make.known.robots[0]), make.known.slots[0]
        return made

    return recipe


def _trigger(make: RequestGenerator) -> FireMotionGraphTriggerRequest:
    """The reference engine's one trigger, mostly."""
    request = make.plain(FireMotionGraphTriggerRequest)
    request.input_id = 5 if make.chance(70) else request.input_id
    return request


#: What makes the messages of a class; everything else is made field by field.
RECIPES: Mapping[type[Any], Callable[[RequestGenerator], Any]] = {
    StepRequest: _step,
    ActionGroupEntry: _group,
    SimulationContract: _contract,
    TaskContract: _task,
    Transform: _transform,
    SetEntityTransformRequest: _placed,
    CameraConfig: _camera_config,
    SetLidarConfigRequest: _lidar_config,
    SetLidarReturnParamsRequest: _lidar_returns,
    SetQposRequest: _qpos,
    SetControlRequest: _control,
    SetPolicyCommandFloatRequest: _command(SetPolicyCommandFloatRequest, True),
    GetPolicyCommandFloatRequest: _command(GetPolicyCommandFloatRequest, True),
    SetPolicyCommandBoolRequest: _command(SetPolicyCommandBoolRequest, False),
    GetPolicyCommandBoolRequest: _command(GetPolicyCommandBoolRequest, False),
    SetMotionGraphInputRequest: _graph_input,
    FireMotionGraphTriggerRequest: _trigger,
    GetPolicyBasePoseRequest: _running(GetPolicyBasePoseRequest),
    GetPolicyLastActionRequest: _running(GetPolicyLastActionRequest),
    DebugDrawRequest: _drawing,
    SetSeedsRequest: _seeds,
    SetResetOptionsRequest: _options,
}
