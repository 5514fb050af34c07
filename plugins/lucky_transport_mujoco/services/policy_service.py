"""AgentService: the policy in a slot, its joints, gains and commands.

A refused request changes nothing: everything is checked before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    ClearPolicyGainsRequest,
    GetPolicyBasePoseRequest,
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    GetPolicyLastActionRequest,
    JointGainOverride,
    ListPolicyDescriptorsRequest,
    ListPolicyDescriptorsResponse,
    PolicyBasePose,
    PolicyCommandBoolValue,
    PolicyCommandFloatValue,
    PolicyCommandType,
    PolicyLastAction,
    PolicyObservationField,
    PolicyRegistryEntry,
    SetPolicyActiveRequest,
    SetPolicyClampObservationRequest,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
    SetPolicyDescriptorRequest,
    SetPolicyDrivenJointsRequest,
    SetPolicyGainsRequest,
    SetPolicyPriorityRequest,
)
from lucky_transport_mujoco.control.controllers import Controller
from lucky_transport_mujoco.control.policies import POLICIES, Policy, PolicyCommand, by_path
from lucky_transport_mujoco.control.slots import GAIN_FIELDS, PolicyBinding, command_ids, gain_problem
from lucky_transport_mujoco.lookup import Refused, acknowledged, answered, joints_of, near, policy_of, slot_of
from lucky_transport_mujoco.world import MujocoWorlds

_PREFIX = "/hazel.rpc.AgentService/"


def policy_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""
    changes = _Changes(world)
    queries = _Queries(world)
    return {
        _PREFIX + "ListPolicyDescriptors": queries.list_descriptors,
        _PREFIX + "GetPolicyBasePose": answered(queries.base_pose, lambda text: PolicyBasePose(False, text)),
        _PREFIX + "GetPolicyLastAction": answered(queries.last_action, lambda text: PolicyLastAction(False, text)),
        _PREFIX + "SetPolicyActive": acknowledged(changes.active),
        _PREFIX + "SetPolicyDescriptor": acknowledged(changes.descriptor),
        _PREFIX + "SetPolicyDrivenJoints": acknowledged(changes.driven_joints),
        _PREFIX + "SetPolicyClampObservation": acknowledged(changes.clamp),
        _PREFIX + "SetPolicyPriority": acknowledged(changes.priority),
        _PREFIX + "SetPolicyGains": acknowledged(changes.gains),
        _PREFIX + "ClearPolicyGains": acknowledged(changes.clear_gains),
    }


class _Changes:
    """What changes a slot; each raises Refused, and then has changed nothing."""

    def __init__(self, world: MujocoWorlds) -> None:
        self._world = world

    def active(self, request: SetPolicyActiveRequest) -> None:
        """Let the slot's policy drive, or no longer; it begins anew when it was inactive."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        if request.active:
            policy_of(slot)
        if slot.active == request.active:
            return
        slot.active = request.active
        slot.begin()
        self._world.controllers.changed(controller)

    def descriptor(self, request: SetPolicyDescriptorRequest) -> None:
        """Put another policy in; an empty path takes the policy out, which deactivates the slot."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        policy = by_path(request.descriptor_path)
        if policy is None and request.descriptor_path:
            paths = [each.descriptor_path for each in POLICIES]
            raise Refused(f"no policy descriptor {request.descriptor_path!r}{near(request.descriptor_path, paths)}")
        if policy is None:
            slot.active = False
        slot.load(policy)
        self._world.controllers.changed(controller)

    def driven_joints(self, request: SetPolicyDrivenJointsRequest) -> None:
        """Let the slot drive these joints of its policy only; none of them when there are none."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        slot.driven = joints_of(self._world, policy_of(slot), request.joint_names)
        self._world.controllers.changed(controller)

    def clamp(self, request: SetPolicyClampObservationRequest) -> None:
        """Show the policy joints that it does not drive as if they were at rest, or as they are."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        slot.clamp = request.clamp_observation_for_unclaimed_joints
        self._world.controllers.changed(controller)

    def priority(self, request: SetPolicyPriorityRequest) -> None:
        """Where slots claim the same joint, the higher number has it."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        slot.priority = request.priority
        self._world.controllers.changed(controller)

    def gains(self, request: SetPolicyGainsRequest) -> None:
        """Lay overrides over those there are; joints that the policy does not know are ignored."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        known = {self._world.robot.joint_names[joint]: joint for joint in policy_of(slot).joints}
        found = dict(slot.gains)
        for override in request.overrides:
            problem = gain_problem(override)
            if problem:
                raise Refused(problem)
            joint = known.get(override.joint_name)
            if joint is not None:
                found[joint] = _merged(found.get(joint), override)
        slot.gains = found
        self._world.controllers.changed(controller)

    def clear_gains(self, request: ClearPolicyGainsRequest) -> None:
        """Give all joints of the slot the gains of the model and of the policy again."""
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        slot.gains = {}
        self._world.controllers.changed(controller)


def _merged(before: JointGainOverride | None, after: JointGainOverride) -> JointGainOverride:
    if before is None:
        return replace(after)
    given = {name: getattr(after, name) for name in GAIN_FIELDS if getattr(after, name) is not None}
    return replace(before, **given)


class _Queries:
    """What is asked about policies; changes nothing."""

    def __init__(self, world: MujocoWorlds) -> None:
        self._world = world

    def list_descriptors(self, _: ListPolicyDescriptorsRequest) -> ListPolicyDescriptorsResponse:
        return ListPolicyDescriptorsResponse([self._entry(policy) for policy in POLICIES])

    def _entry(self, policy: Policy) -> PolicyRegistryEntry:
        names = self._world.robot.joint_names
        sizes = dict(self._world.spec.observation_terms)
        return PolicyRegistryEntry(
            policy_id=policy.policy_id,
            descriptor_path=policy.descriptor_path,
            joints=[names[joint] for joint in policy.joints],
            command_id_map=command_ids(policy),
            observation_spec=[PolicyObservationField(name, "float32", sizes[name]) for name in policy.observations],
            command_aliases={command.alias: command.name for command in policy.commands},
        )

    def base_pose(self, request: GetPolicyBasePoseRequest) -> PolicyBasePose:
        """Where the robot of an active slot is. The engine's frame has y up and z where MuJoCo has -y."""
        controller, _ = self._active(request)
        x, y, _, qw, qx, qy, qz = self._world.qpos(controller.env)[:7].tolist()
        yaw = math.atan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy * qy + qz * qz))
        return PolicyBasePose(True, "", x, y, yaw, x, 0.0 - y, yaw)  # never -0

    def last_action(self, request: GetPolicyLastActionRequest) -> PolicyLastAction:
        """What the policy of an active slot put out last; before its first step, what it would put out now."""
        controller, slot = self._active(request)
        policy = policy_of(slot)
        action = slot.action(policy, self._world.driving.sense(controller.env))
        names = self._world.robot.joint_names
        return PolicyLastAction(True, "", action.tolist(), [names[joint] for joint in policy.joints])

    def _active(
        self, request: GetPolicyBasePoseRequest | GetPolicyLastActionRequest
    ) -> tuple[Controller, PolicyBinding]:
        controller, slot = slot_of(self._world, request.entity, request.slot_id)
        if not slot.active:
            raise Refused(f"slot {slot.slot_id} ({slot.name}) is not active; activate it by SetPolicyActive")
        return controller, slot


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
        slot, command = _command(world, request)  # any type: clients list all commands as floats, a bool is 0 or 1
        return PolicyCommandFloatValue(True, slot.commands[command.id])

    def get_bool(request: GetPolicyCommandBoolRequest) -> PolicyCommandBoolValue:
        slot, command = _typed(world, request, PolicyCommandType.BOOL)
        return PolicyCommandBoolValue(True, bool(slot.commands[command.id]))

    return {
        _PREFIX + "SetPolicyCommandFloat": acknowledged(set_float),
        _PREFIX + "SetPolicyCommandBool": acknowledged(set_bool),
        _PREFIX + "GetPolicyCommandFloat": answered(get_float, lambda text: PolicyCommandFloatValue(False, 0.0, text)),
        _PREFIX + "GetPolicyCommandBool": answered(get_bool, lambda text: PolicyCommandBoolValue(False, False, text)),
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
