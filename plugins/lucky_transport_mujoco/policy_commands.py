"""AgentService: the commands of the policy in a slot, by id.

A command takes values of its own type only; read as a float, a bool is 0 or 1 (clients list all commands so). A value
is kept as it was set; what the policy makes of one out of its range is the policy's business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    PolicyCommandBoolValue,
    PolicyCommandFloatValue,
    PolicyCommandType,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
)
from lucky_transport_mujoco.lookup import Refused, acknowledged, policy_of, slot_of
from lucky_transport_mujoco.policies import PolicyCommand
from lucky_transport_mujoco.slots import PolicyBinding
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["policy_command_handlers"]

_PREFIX = "/hazel.rpc.AgentService/"
_TYPES = {PolicyCommandType.FLOAT: "Float", PolicyCommandType.BOOL: "Bool"}

_Request = (
    SetPolicyCommandFloatRequest
    | SetPolicyCommandBoolRequest
    | GetPolicyCommandFloatRequest
    | GetPolicyCommandBoolRequest
)


def policy_command_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def set_float(request: SetPolicyCommandFloatRequest) -> None:
        slot, command = _typed(world, request, PolicyCommandType.FLOAT)
        if not math.isfinite(request.value):
            raise Refused(f"command {command.id} ({command.name}) is set to {request.value}; expected a finite number")
        slot.commands[command.id] = request.value

    def set_bool(request: SetPolicyCommandBoolRequest) -> None:
        slot, command = _typed(world, request, PolicyCommandType.BOOL)
        slot.commands[command.id] = float(request.value)

    def get_float(request: GetPolicyCommandFloatRequest) -> PolicyCommandFloatValue:
        try:
            slot, command = _command(world, request)
        except Refused as refusal:
            return PolicyCommandFloatValue(False, 0.0, str(refusal))
        return PolicyCommandFloatValue(True, slot.commands[command.id])

    def get_bool(request: GetPolicyCommandBoolRequest) -> PolicyCommandBoolValue:
        try:
            slot, command = _typed(world, request, PolicyCommandType.BOOL)
        except Refused as refusal:
            return PolicyCommandBoolValue(False, False, str(refusal))
        return PolicyCommandBoolValue(True, bool(slot.commands[command.id]))

    return {
        _PREFIX + "SetPolicyCommandFloat": acknowledged(set_float),
        _PREFIX + "SetPolicyCommandBool": acknowledged(set_bool),
        _PREFIX + "GetPolicyCommandFloat": get_float,
        _PREFIX + "GetPolicyCommandBool": get_bool,
    }


def _command(world: MujocoWorlds, request: _Request) -> tuple[PolicyBinding, PolicyCommand]:
    _, slot = slot_of(world, request.entity, request.slot_id)
    policy = policy_of(slot)
    for command in policy.commands:
        if command.id == request.command_id:
            return slot, command
    there = ", ".join(f"{command.id} ({command.name})" for command in policy.commands)
    raise Refused(f"policy {policy.policy_id!r} has no command {request.command_id}; there are {there}")


def _typed(world: MujocoWorlds, request: _Request, wanted: PolicyCommandType) -> tuple[PolicyBinding, PolicyCommand]:
    slot, command = _command(world, request)
    if command.type != wanted:
        right = _TYPES[command.type]
        raise Refused(f"command {command.id} ({command.name}) is a {right.lower()}; use the method for {right}")
    return slot, command
