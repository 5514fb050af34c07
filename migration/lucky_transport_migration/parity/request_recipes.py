"""The fields of messages that have to fit each other, or what an engine has, such as one value per actuator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lucky_transport.messages import (
    ActionGroupEntry,
    CameraConfig,
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
from lucky_transport_migration.parity.request_generator import Fitting, RequestGenerator

__all__ = ["FITTING"]


def _numbers(make: RequestGenerator, count: int, low: float = -1.0, high: float = 1.0) -> list[float]:
    return [make.number(low, high) for _ in range(count)]


def _values(message: Any, names: type[Any] | None = None) -> dict[str, Any]:
    """Return the fields of a message; those that the class `names` has too."""
    return {
        each.name: getattr(message, each.name)
        for each in fields_of(names or type(message))
        if hasattr(message, each.name)
    }


def _group(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    indices = sorted(make.some(range(make.known.action_size)))
    return _values(ActionGroupEntry("", _numbers(make, len(indices), -0.5, 0.5), indices))


def _contract(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    found = _values(SimulationContract())
    for name in make.some([name for name in found if name in make.known.randomizations]):
        limits = make.known.randomizations[name]
        low, high = limits.range_min, min(limits.range_max, limits.range_min + 1.0)
        numbers = _numbers(make, 3 if "3" in limits.type else 2 if isinstance(found[name], list) else 1, low, high)
        found[name] = sorted(numbers) if isinstance(found[name], list) else numbers[0]
    return found


def _task(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    known = make.known
    rewards = [RewardTermRequest(name, make.number()) for name in make.some(known.rewards)]
    ends = [TerminationTermRequest(name, make.chance(30)) for name in make.some(known.terminations)]
    seen = [ObservationTermRequest(name) for name in make.some(known.observations)]
    task = TaskContract(
        task_id="walk",
        observations=ObservationContract(seen) if seen else None,
        rewards=RewardContract(rewards),
        terminations=TerminationContract(ends),
    )
    return _values(task)


def _transform(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    angle = make.number(-math.pi, math.pi)
    turn = Quat(0.0, 0.0, float(np.float32(math.sin(angle / 2))), float(np.float32(math.cos(angle / 2))))
    return _values(Transform(Vec3(make.number(), make.number(), 0.5), turn, Vec3(1.0, 1.0, 1.0)))


def _lidar_returns(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    now = _values(make.known.returns, SetLidarReturnParamsRequest) | {"noise_sigma0": make.number(0.0, 0.1)}
    optional = [field.name for field in fields_of(SetLidarReturnParamsRequest) if field.optional and make.chance(50)]
    return now | dict.fromkeys(optional)


def _qpos(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    joints = make.known.nq - 7
    moves = joints > 0 and make.chance(50)
    bulk = [0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, *_numbers(make, joints)] if moves else []
    return {"bulk": bulk, "force": make.chance(80)}


def _command(make: RequestGenerator, made: Any) -> Mapping[str, Any]:
    is_number = isinstance(made, (SetPolicyCommandFloatRequest, GetPolicyCommandFloatRequest))
    fitting = [row for row in make.known.commands if row[2] == is_number]
    return dict(zip(("slot_id", "command_id"), make.choice(fitting), strict=False)) if fitting else {}


def _running(make: RequestGenerator, _: Any) -> Mapping[str, Any]:
    """About the slot whose policy a round starts, mostly."""
    robots, slots = make.known.robots, make.known.slots
    is_running = robots and slots and make.chance(70)
    return {"entity": EntityId(robots[0]), "slot_id": slots[0]} if is_running else {}


#: By the id of an input of the reference engine's motion graph: a value of that input's type.
_INPUTS: Mapping[int, Callable[[RequestGenerator], MotionGraphInputValue]] = {
    1: lambda make: MotionGraphInputValue(float_val=make.number(0.0, 1.0)),
    2: lambda make: MotionGraphInputValue(bool_val=make.chance(50)),
    3: lambda make: MotionGraphInputValue(int_val=make.integer(0, 3)),
    4: lambda make: MotionGraphInputValue(vec3_val=Vec3(make.number(-0.05, 0.05), 0.0, 0.0)),
    5: lambda make: MotionGraphInputValue(trigger=True),
}

#: What fits of the fields of a class; all others are made by their kind.
FITTING: Fitting = {
    StepRequest: lambda make, made: {
        "actions": _numbers(make, make.known.action_size, -0.5, 0.5) if make.chance(60) else [],
        "timeout_s": 0.0,
        "camera_requests": made.camera_requests if make.known.cameras and make.chance(30) else [],
        "action_groups": made.action_groups if make.known.groups and make.chance(30) else [],
    },
    ActionGroupEntry: _group,
    SimulationContract: _contract,
    TaskContract: _task,
    Transform: _transform,
    SetEntityTransformRequest: lambda make, made: {
        "id": EntityId(make.choice(make.known.robots or make.known.entities or [0])),
        "transform": made.transform or make.make(Transform),
    },
    CameraConfig: lambda make, _: {
        **_values(make.known.camera),
        "width": make.choice((16, 32)),
        "height": make.choice((16, 24)),
        "enabled": make.chance(80),
    },
    SetLidarConfigRequest: lambda make, _: {
        **_values(make.known.lidar, SetLidarConfigRequest),
        "sensor": make.integer(0, len(make.known.agents) - 1),
        "channels": make.integer(1, 4),
        "azimuth_bins": make.integer(1, 16),
    },
    SetLidarReturnParamsRequest: _lidar_returns,
    SetQposRequest: _qpos,
    SetControlRequest: lambda make, _: {"bulk": _numbers(make, make.known.nu) if make.chance(50) else []},
    SetPolicyCommandFloatRequest: _command,
    GetPolicyCommandFloatRequest: _command,
    SetPolicyCommandBoolRequest: _command,
    GetPolicyCommandBoolRequest: _command,
    SetMotionGraphInputRequest: lambda make, made: {"value": _INPUTS[made.input_id](make)},
    FireMotionGraphTriggerRequest: lambda make, made: {"input_id": 5 if make.chance(70) else made.input_id},
    GetPolicyBasePoseRequest: _running,
    GetPolicyLastActionRequest: _running,
    SetSeedsRequest: lambda make, _: {
        "seeds": [make.integer(0, 2**64 - 1) for _ in make.known.agents],
        "mask": bytes(make.integer(0, 1) for _ in make.known.agents) if make.chance(50) else b"",
    },
    SetResetOptionsRequest: lambda make, made: {
        "contract": made.contract or make.make(SimulationContract),
        "options_json": make.choice(("", "{}")),
    },
}
