"""The policy slots of one robot: the policy in each, the joints it drives, its commands and gain overrides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.messages import JointGainOverride, PolicyCommandIdEntry, PolicySlotSummary
from lucky_transport_mujoco.bindings import Model
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD, POLICIES, Ease, Policy, Sense, to_units


@dataclass(slots=True)
class PolicyBinding:
    """One slot. driven: joint indices. gains: overrides by joint index. last_action: float32 per joint of the policy,
    what it put out when it last ran, None before that.
    """

    slot_id: int
    name: str
    ease: Ease
    policy: Policy | None = None
    active: bool = False
    priority: int = 0
    driven: tuple[int, ...] = ()
    clamp: bool = False
    commands: dict[int, float] = field(default_factory=dict[int, float])
    gains: dict[int, JointGainOverride] = field(default_factory=dict[int, JointGainOverride])
    last_action: NDArray[np.float32] | None = None

    def load(self, policy: Policy | None) -> None:
        """Put another policy in, or none: it begins with that policy's joints and commands, without gain overrides."""
        self.policy = policy
        self.driven = policy.joints if policy else ()
        self.commands = {command.id: command.default for command in policy.commands} if policy else {}
        self.gains = {}
        self.begin()

    def begin(self) -> None:
        """Begin anew, seconds 0, easing from the pose the robot has by then.

        A slot begins when it is activated, when its robot is reset or moved, and when it takes over from an agent.
        """
        self.ease.begin()
        self.last_action = None

    def run(self, policy: Policy, sense: Sense) -> NDArray[np.float32]:
        """Let its policy act once: return the engine's action for all joints, float32 (12,), and move time on."""
        action = self._act(policy, sense)
        self.ease.tick(sense.joint_home + sense.joint_pos)
        self.last_action = action[list(policy.joints)]
        return self._with_gains(action, sense.joint_home)

    def action(self, policy: Policy, sense: Sense) -> NDArray[np.float32]:
        """Return what its policy put out when it last ran; before that, what it would put out now. Changes nothing."""
        if self.last_action is not None:
            return self.last_action
        return self._act(policy, sense)[list(policy.joints)]

    def _act(self, policy: Policy, sense: Sense) -> NDArray[np.float32]:
        wanted = self.ease.towards(policy.act(self._seen(policy, sense)), sense.joint_home + sense.joint_pos)
        return to_units(wanted, sense.joint_home)

    def _seen(self, policy: Policy, sense: Sense) -> Sense:
        """Return `sense` as this slot's policy has it: with its commands, unclaimed joints at rest where it clamps."""
        joint_pos, joint_vel = sense.joint_pos, sense.joint_vel
        if self.clamp:
            unclaimed = np.ones(joint_pos.size, np.bool_)
            unclaimed[list(self.driven)] = False
            joint_pos, joint_vel = np.where(unclaimed, 0.0, joint_pos), np.where(unclaimed, 0.0, joint_vel)
        commands = {command.name: self.commands[command.id] for command in policy.commands}
        return replace(sense, seconds=self.ease.seconds, commands=commands, joint_pos=joint_pos, joint_vel=joint_vel)

    def _with_gains(self, action: NDArray[np.float32], joint_home: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the engine's action for the policy's: another default pose or scale of a joint is put into it."""
        out = action.copy()
        for joint, gain in self.gains.items():
            if gain.action_scale is None and gain.default_pos is None:
                continue
            scale = ACTION_SCALE_RAD if gain.action_scale is None else gain.action_scale
            rest = float(joint_home[joint]) if gain.default_pos is None else gain.default_pos
            out[joint] = (rest + scale * float(action[joint]) - float(joint_home[joint])) / ACTION_SCALE_RAD
        return out

    def summary(self, joint_names: Sequence[str]) -> PolicySlotSummary:
        """Describe the slot."""
        policy = self.policy
        return PolicySlotSummary(
            slot_id=self.slot_id,
            name=self.name,
            descriptor_path=policy.descriptor_path if policy else "",
            active=self.active,
            priority=self.priority,
            driven_joints=[joint_names[joint] for joint in self.driven],
            clamp_observation_for_unclaimed_joints=self.clamp,
            ready=policy is not None,
            active_policy_id=policy.policy_id if policy else "",
            command_id_map=command_ids(policy) if policy else [],
            policy_joint_names=[joint_names[joint] for joint in policy.joints] if policy else [],
        )


def command_ids(policy: Policy) -> list[PolicyCommandIdEntry]:
    """Describe the commands of a policy."""
    return [PolicyCommandIdEntry(command.id, command.name, command.type) for command in policy.commands]


def new_slots(step_s: float) -> dict[int, PolicyBinding]:
    """Return a robot's slots by id, from 1: one per policy, none active."""
    slots: dict[int, PolicyBinding] = {}
    for number, policy in enumerate(POLICIES, 1):
        slots[number] = PolicyBinding(number, policy.policy_id.capitalize(), Ease(step_s), priority=0)
        slots[number].load(policy)
    return slots


def claims(slots: Mapping[int, PolicyBinding], joints: int) -> NDArray[np.uint32]:
    """Return uint32 (joints,): the id of the slot that drives each joint, 0 where none does.

    An active slot claims its driven joints. Of several, the highest priority has a joint, then the lowest slot id.
    """
    out = np.zeros(joints, np.uint32)
    for slot in sorted(slots.values(), key=lambda each: (each.priority, -each.slot_id)):
        if slot.active:
            out[list(slot.driven)] = slot.slot_id
    return out


#: Field of an override -> (least, most, unit).
_GAIN_LIMITS: dict[str, tuple[float, float, str]] = {
    "kp": (0.0, 1e4, "Nm/rad"),
    "kd": (0.0, 1e3, "Nm s/rad"),
    "effort_limit": (0.0, 1e3, "Nm"),
    "action_scale": (0.0, 10.0, "rad"),
    "default_pos": (-math.pi, math.pi, "rad"),
}

#: The fields of an override that hold numbers.
GAIN_FIELDS = tuple(_GAIN_LIMITS)


def check_gains(override: JointGainOverride) -> None:
    """Raise SpecError for numbers of an override that are out of range."""
    for name, (least, most, unit) in _GAIN_LIMITS.items():
        value: float | None = getattr(override, name)
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            raise SpecError(f"{override.joint_name}: {name} {value}, expected {least:g} to {most:g} {unit}")


def apply_gains(
    slots: Mapping[int, PolicyBinding],
    claims: NDArray[np.uint32],
    own_model: Callable[[], tuple[Model, NDArray[np.float64]]],
) -> bool:
    """Write the overrides of the joints that each slot drives; returns whether there were any.

    Overrides count in the units of the MJCF. The motor strength drawn for the env scales them: a weak motor stays weak.
    `own_model` gives the env's own model and the strength of its motors; called only if there is something to write.
    """
    wanted = [
        (joint, gain)
        for slot in slots.values()
        for joint, gain in slot.gains.items()
        if claims[joint] == slot.slot_id and not (gain.kp is gain.kd is gain.effort_limit is None)
    ]
    if not wanted:
        return False
    model, strength = own_model()
    for joint, gain in wanted:
        if gain.kp is not None:
            model.actuator_gainprm[joint, 0] = gain.kp * strength[joint]
            model.actuator_biasprm[joint, 1] = -gain.kp * strength[joint]
        if gain.kd is not None:
            model.actuator_biasprm[joint, 2] = -gain.kd * strength[joint]
        if gain.effort_limit is not None:
            limit = gain.effort_limit * strength[joint]
            model.actuator_forcerange[joint] = (-limit, limit)
    return True
