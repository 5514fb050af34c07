"""The policy slots of one robot: the policy in each, the joints it drives, its commands and gain overrides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.messages import JointGainOverride, PolicyCommandIdEntry, PolicyCommandType, PolicySlotSummary
from lucky_transport_mujoco.bindings import Model
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD, POLICIES, Ease, Policy, Sense, to_units

_FLOAT, _BOOL = PolicyCommandType.FLOAT, PolicyCommandType.BOOL


@dataclass(slots=True)
class PolicyBinding:
    """One slot. driven: joint indices. gains: overrides by joint index. last_action: float32 per joint of the policy,
    what it put out when it last ran, None before that.

    clamp is kept and shown: no policy here sees joints that it does not drive.
    """

    slot_id: int
    name: str
    ease: Ease
    policy: Policy | None = None
    active: bool = False
    priority: int = 0
    driven: tuple[int, ...] = ()
    clamp: bool = False
    commands: dict[str, float] = field(default_factory=dict[str, float])
    gains: dict[int, JointGainOverride] = field(default_factory=dict[int, JointGainOverride])
    last_action: NDArray[np.float32] | None = None

    def load(self, policy: Policy | None) -> None:
        """Put another policy in, or none: it begins with that policy's joints and commands, without gain overrides."""
        self.policy = policy
        self.driven = policy.joints if policy else ()
        self.commands = dict(policy.commands) if policy else {}
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
        self.ease.tick(sense.joints)
        self.last_action = action[list(policy.joints)]
        for joint, gain in self.gains.items():  # another default pose or scale is put into the engine's action
            home = float(sense.joint_home[joint])
            scale = ACTION_SCALE_RAD if gain.action_scale is None else gain.action_scale
            rest = home if gain.default_pos is None else gain.default_pos
            action[joint] = (rest - home + scale * float(action[joint])) / ACTION_SCALE_RAD
        return action

    def action(self, policy: Policy, sense: Sense) -> NDArray[np.float32]:
        """Return what its policy put out when it last ran; before that, what it would put out now. Changes nothing."""
        return self._act(policy, sense)[list(policy.joints)] if self.last_action is None else self.last_action

    def _act(self, policy: Policy, sense: Sense) -> NDArray[np.float32]:
        wanted = policy.act(replace(sense, seconds=self.ease.seconds, commands=self.commands))
        return to_units(self.ease.towards(wanted, sense.joints), sense.joint_home)

    def summary(self, joint_names: Sequence[str]) -> PolicySlotSummary:
        """Describe the slot."""
        policy = self.policy
        told = PolicySlotSummary(
            slot_id=self.slot_id,
            name=self.name,
            active=self.active,
            priority=self.priority,
            driven_joints=[joint_names[joint] for joint in self.driven],
            clamp_observation_for_unclaimed_joints=self.clamp,
            ready=policy is not None,
        )
        if policy is not None:
            told.descriptor_path, told.active_policy_id = policy.descriptor_path, policy.policy_id
            told.command_id_map = command_ids(policy)
            told.policy_joint_names = [joint_names[joint] for joint in policy.joints]
        return told


def command_ids(policy: Policy) -> list[PolicyCommandIdEntry]:
    """Describe the commands of a policy."""
    types = {name: _BOOL if isinstance(value, bool) else _FLOAT for name, value in policy.commands.items()}
    return [PolicyCommandIdEntry(number, name, kind) for number, (name, kind) in enumerate(types.items(), 1)]


def new_slots(step_s: float) -> dict[int, PolicyBinding]:
    """Return a robot's slots by id, from 1: one per policy, none active."""
    slots: dict[int, PolicyBinding] = {}
    for number, policy in enumerate(POLICIES, 1):
        slots[number] = PolicyBinding(number, policy.policy_id.capitalize(), Ease(step_s))
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


def put_gains(model: Model, joint: int, gain: JointGainOverride, strength: float) -> None:
    """Write an override into a model; the motor strength drawn for the env scales it: a weak motor stays weak."""
    if gain.kp is not None:
        model.actuator_gainprm[joint, 0] = gain.kp * strength
        model.actuator_biasprm[joint, 1] = -gain.kp * strength
    if gain.kd is not None:
        model.actuator_biasprm[joint, 2] = -gain.kd * strength
    if gain.effort_limit is not None:
        limit = gain.effort_limit * strength
        model.actuator_forcerange[joint] = (-limit, limit)
