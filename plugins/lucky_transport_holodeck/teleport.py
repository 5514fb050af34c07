"""Where a client wants an agent: a byte of flags and twelve numbers.

flags: 1 location · 2 rotation · 4 everything       numbers: location, rotation, velocity, angular velocity
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import NamedTuple

__all__ = ["TELEPORT_NUMBERS", "Teleport", "TeleportFlag"]

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
