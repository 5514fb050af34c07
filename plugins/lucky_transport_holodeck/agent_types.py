"""The kinds of agents that Holodeck and HoloOcean have, how they act and how they are teleported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import NamedTuple

from lucky_transport.errors import SpecError

#: What the SphereRobot's discrete scheme writes for the actions 0 to 3: metres forward, degrees to the right.
SPHERE_MOVES = ((0.185, 0.0), (-0.185, 0.0), (0.0, 10.0), (0.0, -10.0))


@dataclass(frozen=True, slots=True)
class ControlScheme:
    """One way to act: `size` values between `-limit` and `limit` (a value each, or one for all; None: unbounded)."""

    name: str
    size: int
    limit: float | tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class AgentType:
    """One kind of agent, with its name in scenarios and the one in commands. `joints`, `touched` and `bones` size the
    sensors that only bodies have (0: it has none). is_holoocean: HoloOcean has it and Holodeck does not.
    """

    scenario_name: str
    wire_name: str
    schemes: tuple[ControlScheme, ...]
    joints: int = 0
    touched: int = 0
    bones: int = 0
    is_holoocean: bool = False

    @property
    def action_size(self) -> int:
        """Values in the action block, float32 each; a shorter control scheme leaves the rest at zero."""
        return max(scheme.size for scheme in self.schemes)


def _accelerations(linear: float) -> ControlScheme:
    """Return the scheme for dynamics of one's own: m/s² and rad/s² along and around the world's axes."""
    return ControlScheme("accelerations", 6, (linear,) * 3 + (2.0,) * 3)


def _hovering(name: str, mass: float) -> AgentType:
    schemes = (ControlScheme("thrusters", 8, 10 * mass / 4), ControlScheme("pose", 6), _accelerations(10.0))
    return AgentType(name, name, schemes, is_holoocean=True)


def _torpedo(name: str) -> AgentType:
    schemes = (ControlScheme("fins and thrust", 5, (45.0,) * 4 + (100.0,)), _accelerations(10.0))
    return AgentType(name, name, schemes, is_holoocean=True)


#: Schemes are in the order in which the engine numbers them.
_KINDS = (
    AgentType("SphereAgent", "SphereRobot", (ControlScheme("discrete", 2), ControlScheme("forward, turn", 2, 20.0))),
    AgentType("TurtleAgent", "TurtleAgent", (ControlScheme("forward, turn", 2, (160.0, 35.0)),)),
    AgentType("NavAgent", "NavAgent", (ControlScheme("target", 3, 0.5),)),
    AgentType(
        "UavAgent",
        "UAV",
        (
            ControlScheme("torques and thrust", 4, (5.087, 6.508, 0.8, 59.844)),
            ControlScheme("pitch, roll, yaw rate, altitude", 4),
        ),
    ),
    AgentType(
        "HandAgent",
        "HandAgent",
        (
            ControlScheme("torques", 23, 20.0),
            ControlScheme("scaled torques", 23, 1.0),
            ControlScheme("scaled torques, movement", 26, (1.0,) * 23 + (0.5,) * 3),
        ),
        joints=23,
        touched=16,
        bones=17,
    ),
    AgentType(
        "AndroidAgent",
        "Android",
        (ControlScheme("torques", 94, 20.0), ControlScheme("scaled torques", 94, 1.0)),
        joints=94,
        touched=48,
        bones=60,
    ),
    _hovering("HoveringAUV", 31.02),
    _hovering("BlueROV2", 11.5),
    _hovering("ScubaDiver", 100.0),
    _hovering("FixedWing", 31.02),
    _torpedo("TorpedoAUV"),
    _torpedo("CougUV"),
    AgentType(
        "SurfaceVessel",
        "SurfaceVessel",
        (ControlScheme("thrusters", 2, 1500.0), ControlScheme("position", 2), _accelerations(20.0)),
        is_holoocean=True,
    ),
)

#: By their names on the wire.
AGENT_TYPES: dict[str, AgentType] = {kind.wire_name: kind for kind in _KINDS}


def type_in_scenario(name: str) -> AgentType:
    """Return the kind that a scenario calls `name`; raises SpecError."""
    for kind in _KINDS:
        if kind.scenario_name == name:
            return kind
    known = ", ".join(kind.scenario_name for kind in _KINDS)
    raise SpecError(f"Holodeck has no agent type {name!r}", backend="holodeck", hint=f"known: {known}")


def fitting_type(action_size: int) -> AgentType:
    """Return the smallest kind whose actions, written as they are, have room for `action_size` values.

    Raises SpecError when none has.
    """
    for kind in _KINDS[1:]:  # the client itself rewrites what a SphereRobot is told
        if kind.action_size >= action_size:
            return kind
    raise SpecError(f"an action of {action_size} values fits no Holodeck agent: an Android has 94", backend="holodeck")


#: Location, rotation, velocity and angular velocity.
TELEPORT_NUMBERS = 12


class TeleportFlag(IntFlag):
    """What of the numbers counts; the engine puts the byte back to 0."""

    LOCATION = 1
    ROTATION = 2
    PHYSICS_STATE = 4


class Teleport(NamedTuple):
    """Where an agent is to be; None: as it is. Metres, degrees, metres and degrees per second."""

    location: tuple[float, ...] | None
    rotation: tuple[float, ...] | None
    velocity: tuple[float, ...] | None = None
    angular_velocity: tuple[float, ...] | None = None

    @classmethod
    def of(cls, flag: int, numbers: Sequence[float]) -> Teleport:
        """Read a flag that is not 0, and its numbers. PHYSICS_STATE goes first: client 0.3.1 sets all bits with it."""
        location, rotation, *velocities = (tuple(numbers[at : at + 3]) for at in range(0, TELEPORT_NUMBERS, 3))
        if flag & TeleportFlag.PHYSICS_STATE:
            return cls(location, rotation, *velocities)
        return cls(
            location if flag & TeleportFlag.LOCATION else None, rotation if flag & TeleportFlag.ROTATION else None
        )
