"""AgentService: robot controllers, the policies in their slots with joints, gains and commands, and motion graphs."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import LocalProtocolError, SpecError, UnknownName
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_mujoco.control.controllers import CROUCH, INPUTS, Controller
from lucky_transport_mujoco.control.policies import POLICIES, Policy
from lucky_transport_mujoco.control.slots import GAIN_FIELDS, PolicyBinding, check_gains, command_ids
from lucky_transport_mujoco.services.service import Service, rate_hz, unknown_name
from lucky_transport_mujoco.world import env_of_robot, robot_entity


class ControllerService(Service):
    """The robots' controllers: what is told of them, what changes a slot and its policy's commands, motion graphs."""

    service = "AgentService"

    def _controller(self, entity: m.EntityId | None) -> Controller:
        number = entity.id if entity else 0
        env = env_of_robot(number, self.world.num_envs)
        if env < 0:
            first, last = robot_entity(0), robot_entity(self.world.num_envs - 1)
            robots = f"{first}" if first == last else f"{first} to {last}"
            raise UnknownName(f"entity {number} has no robot controller; robots are entities {robots}")
        return self.world.controllers.of(env)

    def _slot(self, request: Any) -> tuple[Controller, PolicyBinding]:
        controller = self._controller(request.entity)
        slot = controller.slots.get(request.slot_id)
        if slot is None:
            there = ", ".join(f"{each.slot_id} ({each.name})" for each in controller.slots.values())
            raise UnknownName(f"no slot {request.slot_id}; there are {there}")
        return controller, slot

    def _names(self, joints: tuple[int, ...]) -> list[str]:
        return [self.world.robot.joint_names[joint] for joint in joints]

    # what is told of controllers and their policies

    def list_robot_controllers(self, _: m.ListRobotControllersRequest) -> m.ListRobotControllersResponse:
        controllers = self.world.controllers
        return m.ListRobotControllersResponse([controllers.of(env).summary() for env in range(self.world.num_envs)])

    def get_robot_controller(self, request: m.GetRobotControllerRequest) -> m.GetRobotControllerResponse:
        return m.GetRobotControllerResponse(True, self._controller(request.entity).summary())

    def stream_robot_controller(
        self, request: m.StreamRobotControllerRequest, call: Call
    ) -> Iterator[m.RobotControllerSummary]:
        return _states(self._controller(request.entity), request.target_fps, call)

    def stream_policy_slot_state(
        self, request: m.StreamPolicySlotStateRequest, call: Call
    ) -> Iterator[m.PolicySlotSummary]:
        controller, slot = self._slot(request)
        for state in _states(controller, request.target_fps, call):
            yield next(each for each in state.slots if each.slot_id == slot.slot_id)

    def list_policy_descriptors(self, _: m.ListPolicyDescriptorsRequest) -> m.ListPolicyDescriptorsResponse:
        sizes = dict(self.world.spec.observation_terms)
        return m.ListPolicyDescriptorsResponse(
            [
                m.PolicyRegistryEntry(
                    policy_id=policy.policy_id,
                    descriptor_path=policy.descriptor_path,
                    joints=self._names(policy.joints),
                    command_id_map=command_ids(policy),
                    observation_spec=[
                        m.PolicyObservationField(name, "float32", sizes[name]) for name in policy.observations
                    ],
                    command_aliases={_alias(name): name for name in policy.commands},
                )
                for policy in POLICIES
            ]
        )

    def get_policy_base_pose(self, request: m.GetPolicyBasePoseRequest) -> m.PolicyBasePose:
        """Where the robot of an active slot is. The engine's frame has y up and z where MuJoCo has -y."""
        controller, _ = self._active(request)
        x, y, _, qw, qx, qy, qz = self.world.qpos(controller.env)[:7].tolist()
        yaw = math.atan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy * qy + qz * qz))
        return m.PolicyBasePose(True, "", x, y, yaw, x, 0.0 - y, yaw)  # never -0

    def get_policy_last_action(self, request: m.GetPolicyLastActionRequest) -> m.PolicyLastAction:
        """What the policy of an active slot put out last; before its first step, what it would put out now."""
        controller, slot = self._active(request)
        policy = _policy(slot)
        action = slot.action(policy, self.world.driving.sense(controller.env))
        return m.PolicyLastAction(True, "", action.tolist(), self._names(policy.joints))

    def _active(self, request: Any) -> tuple[Controller, PolicyBinding]:
        controller, slot = self._slot(request)
        if not slot.active:
            raise LocalProtocolError(f"slot {slot.slot_id} ({slot.name}) is not active; activate it by SetPolicyActive")
        return controller, slot

    # what changes a slot, and its policy's commands

    @contextmanager
    def _changing(self, request: Any) -> Iterator[PolicyBinding]:
        controller, slot = self._slot(request)
        yield slot
        self.world.controllers.changed(controller)

    def set_policy_active(self, request: m.SetPolicyActiveRequest) -> None:
        """Let the slot's policy drive, or no longer; it begins anew when it was inactive."""
        with self._changing(request) as slot:
            if request.active:
                _policy(slot)
            if slot.active != request.active:
                slot.active = request.active
                slot.begin()

    def set_policy_descriptor(self, request: m.SetPolicyDescriptorRequest) -> None:
        """Put another policy in; an empty path takes the policy out, which deactivates the slot."""
        policies = {policy.descriptor_path: policy for policy in POLICIES}
        with self._changing(request) as slot:
            if request.descriptor_path and request.descriptor_path not in policies:
                raise unknown_name("no policy descriptor", request.descriptor_path, policies)
            slot.active = slot.active and bool(request.descriptor_path)
            slot.load(policies.get(request.descriptor_path))

    def set_policy_driven_joints(self, request: m.SetPolicyDrivenJointsRequest) -> None:
        """Let the slot drive these joints of its policy only; none of them when there are none."""
        with self._changing(request) as slot:
            policy, names = _policy(slot), request.joint_names
            known = self._joints(policy)
            for name in names:
                if name not in known:
                    raise unknown_name(f"policy {policy.policy_id!r} drives no joint", name, known)
                if names.count(name) > 1:
                    raise SpecError(f"joint {name!r} is named twice")
            slot.driven = tuple(sorted(known[name] for name in names))

    def set_policy_clamp_observation(self, request: m.SetPolicyClampObservationRequest) -> None:
        """Keep and show whether it is to see other joints at rest: no policy here sees joints."""
        with self._changing(request) as slot:
            slot.clamp = request.clamp_observation_for_unclaimed_joints

    def set_policy_priority(self, request: m.SetPolicyPriorityRequest) -> None:
        """Where slots claim the same joint, the higher number has it."""
        with self._changing(request) as slot:
            slot.priority = request.priority

    def set_policy_gains(self, request: m.SetPolicyGainsRequest) -> None:
        """Lay overrides over those there are; joints that the policy does not know are ignored."""
        with self._changing(request) as slot:
            known, found = self._joints(_policy(slot)), dict(slot.gains)
            for override in request.overrides:
                check_gains(override)
                if (joint := known.get(override.joint_name)) is not None:
                    given = {name: value for name in GAIN_FIELDS if (value := getattr(override, name)) is not None}
                    found[joint] = replace(found.get(joint, override), **given)
            slot.gains = found

    def clear_policy_gains(self, request: m.ClearPolicyGainsRequest) -> None:
        """Give all joints of the slot the gains of the model and of the policy again."""
        with self._changing(request) as slot:
            slot.gains = {}

    def _joints(self, policy: Policy) -> dict[str, int]:
        return {self.world.robot.joint_names[joint]: joint for joint in policy.joints}

    def set_policy_command_float(self, request: m.SetPolicyCommandFloatRequest) -> None:
        slot, name = self._command(request, float)
        if not math.isfinite(request.value):
            text = f"command {request.command_id} ({name}) is set to {request.value}; expected a finite number"
            raise SpecError(text)
        slot.commands[name] = request.value

    def set_policy_command_bool(self, request: m.SetPolicyCommandBoolRequest) -> None:
        slot, name = self._command(request, bool)
        slot.commands[name] = request.value

    def get_policy_command_float(self, request: m.GetPolicyCommandFloatRequest) -> m.PolicyCommandFloatValue:
        """The value of a command of any type: clients list all commands as floats, a bool is 0 or 1."""
        slot, name = self._command(request)
        return m.PolicyCommandFloatValue(True, float(slot.commands[name]))

    def get_policy_command_bool(self, request: m.GetPolicyCommandBoolRequest) -> m.PolicyCommandBoolValue:
        slot, name = self._command(request, bool)
        return m.PolicyCommandBoolValue(True, bool(slot.commands[name]))

    def _command(self, request: Any, wanted: type | None = None) -> tuple[PolicyBinding, str]:
        """Return the slot and the command's name; the command has to be of the type that is `wanted`."""
        _, slot = self._slot(request)
        policy = _policy(slot)
        names = dict(enumerate(policy.commands, 1))
        name = names.get(request.command_id)
        if name is None:
            there = ", ".join(f"{number} ({each})" for number, each in names.items())
            raise UnknownName(f"policy {policy.policy_id!r} has no command {request.command_id}; there are {there}")
        right = type(policy.commands[name])
        if wanted not in (None, right):
            text = f"command {request.command_id} ({name}) is a {right.__name__}"
            raise SpecError(f"{text}; use the method for {right.__name__.capitalize()}")
        return slot, name

    # motion graphs

    def set_motion_graph_active(self, request: m.SetMotionGraphActiveRequest) -> None:
        controller = self._controller(request.entity)
        if controller.graph.active != request.active:
            controller.graph.active = request.active
            controller.graph.begin()
            self.world.controllers.changed(controller)

    def get_motion_graph_active(self, request: m.GetMotionGraphActiveRequest) -> m.GetMotionGraphActiveResponse:
        return m.GetMotionGraphActiveResponse(True, self._controller(request.entity).graph.active)

    def set_motion_graph_input(self, request: m.SetMotionGraphInputRequest) -> None:
        graph = self._controller(request.entity).graph
        number, (name, takes) = request.input_id, _input(request.input_id)
        value = request.value or m.MotionGraphInputValue()
        given = next((each for each in one_of_fields(m.MotionGraphInputValue) if getattr(value, each) is not None), "")
        if given not in takes:
            raise SpecError(f"input {number} ({name}) takes {takes[0]}, not {given or 'nothing'}")
        content: float = getattr(value, given)
        if not math.isfinite(content):
            raise SpecError(f"input {number} ({name}) is set to a number that is not finite")
        if number == CROUCH:
            graph.crouch = float(content)
        elif content:
            graph.fire()

    def get_motion_graph_input(self, request: m.GetMotionGraphInputRequest) -> m.GetMotionGraphInputResponse:
        """Answer with the value in the input's own type, whatever the hint."""
        graph = self._controller(request.entity).graph
        _input(request.input_id)
        return m.GetMotionGraphInputResponse(True, graph.value(request.input_id))

    def fire_motion_graph_trigger(self, request: m.FireMotionGraphTriggerRequest) -> None:
        graph = self._controller(request.entity).graph
        name, takes = _input(request.input_id)
        if "trigger" not in takes:
            raise SpecError(f"input {request.input_id} ({name}) is no trigger; set it by SetMotionGraphInput")
        graph.fire()


def _input(number: int) -> tuple[str, tuple[str, ...]]:
    """Return the name of an input and the fields of a value that it takes."""
    if number not in INPUTS:
        there = ", ".join(f"{known} ({name})" for known, (name, _) in INPUTS.items())
        raise UnknownName(f"the motion graph has no input {number}; there are {there}")
    return INPUTS[number]


def _alias(command: str) -> str:
    """Return a command's other name: SetYawRate is yaw_rate."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.removeprefix("Set")).lower()


def _policy(slot: PolicyBinding) -> Policy:
    if slot.policy is None:
        raise LocalProtocolError(
            f"slot {slot.slot_id} ({slot.name}) holds no policy; give it one by SetPolicyDescriptor"
        )
    return slot.policy


def _states(controller: Controller, target_fps: int, call: Call) -> Iterator[m.RobotControllerSummary]:
    """Yield the state at each tick, or instead all states since the tick before: no subscriber misses a change."""
    with call.between_steps():
        changes: deque[m.RobotControllerSummary] = controller.watch()
    try:
        for _ in call.ticks(rate_hz(target_fps)):
            with call.between_steps():
                states = [changes.popleft() for _ in range(len(changes))] or [controller.summary()]
            yield from states
    finally:
        controller.unwatch(changes)
