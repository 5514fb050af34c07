"""Finds what a request names, or refuses it with a text for the client."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

from lucky_transport.errors import UnknownName, did_you_mean
from lucky_transport.messages import EntityId, PolicyOperationAck
from lucky_transport_mujoco.control.controllers import Controller, env_of_robot, robot_entity
from lucky_transport_mujoco.control.policies import Policy
from lucky_transport_mujoco.control.slots import PolicyBinding
from lucky_transport_mujoco.world import MujocoWorlds

R = TypeVar("R")
A = TypeVar("A")


class Refused(Exception):
    """A request that cannot be done, with a text for the client. It never leaves a handler: it becomes a response."""


def answered(act: Callable[[R], A], refuse: Callable[[str], A]) -> Callable[[R], A]:
    """Return `act` as a handler that answers `refuse(text)` where `act` raises Refused."""

    def handle(request: R) -> A:
        try:
            return act(request)
        except Refused as refusal:
            return refuse(str(refusal))

    return handle


def acknowledged(act: Callable[[R], None]) -> Callable[[R], PolicyOperationAck]:
    """Return `act` as a handler: an ack that it was done, or why it was refused."""

    def done(request: R) -> PolicyOperationAck:
        act(request)
        return PolicyOperationAck(True)

    return answered(done, lambda text: PolicyOperationAck(False, text))


def find_controller(world: MujocoWorlds, entity: EntityId | None) -> Controller | None:
    """Return the controller of that entity, None when it is no robot."""
    env = env_of_robot(entity.id if entity else 0, world.num_envs)
    return world.controllers.of(env) if env >= 0 else None


def controller_of(world: MujocoWorlds, entity: EntityId | None) -> Controller:
    """Return the controller of that entity; raises Refused."""
    found = find_controller(world, entity)
    if found is None:
        first, last = robot_entity(0), robot_entity(world.num_envs - 1)
        robots = f"{first}" if first == last else f"{first} to {last}"
        raise Refused(f"entity {entity.id if entity else 0} has no robot controller; robots are entities {robots}")
    return found


def slot_of(world: MujocoWorlds, entity: EntityId | None, slot_id: int) -> tuple[Controller, PolicyBinding]:
    """Return a controller and its slot of that id; raises Refused."""
    controller = controller_of(world, entity)
    slot = controller.slots.get(slot_id)
    if slot is None:
        there = ", ".join(f"{each.slot_id} ({each.name})" for each in controller.slots.values())
        raise Refused(f"no slot {slot_id}; there are {there}")
    return controller, slot


def policy_of(slot: PolicyBinding) -> Policy:
    """Return the policy in a slot; raises Refused."""
    if slot.policy is None:
        raise Refused(f"slot {slot.slot_id} ({slot.name}) holds no policy; give it one by SetPolicyDescriptor")
    return slot.policy


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" when a known name is close to `name`, else "; there are ..."."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(names)}"


def joints_of(world: MujocoWorlds, policy: Policy, names: Iterable[str]) -> tuple[int, ...]:
    """Return the indices of those joints, ascending; raises Refused for one that the policy does not drive."""
    known = {world.robot.joint_names[joint]: joint for joint in policy.joints}
    found: set[int] = set()
    for name in names:
        if name not in known:
            raise Refused(f"policy {policy.policy_id!r} drives no joint {name!r}{near(name, known)}")
        if known[name] in found:
            raise Refused(f"joint {name!r} is named twice")
        found.add(known[name])
    return tuple(sorted(found))


_USUAL_HZ = 30
_MOST_HZ = 1000


def rate_hz(target_fps: int) -> int:
    """Return the items per second for a client that asked for `target_fps`."""
    return min(target_fps, _MOST_HZ) if target_fps > 0 else _USUAL_HZ


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that nothing has, with the nearest one and all there are."""
    names = list(known)
    hint = f"{did_you_mean(name, names)}there are: {', '.join(names)}"
    return UnknownName(f"no {kind} {name!r}", backend="mujoco", hint=hint)
