"""Differences of steps, resets and the spec."""

from __future__ import annotations

from lucky_transport.transport import Frame
from tests.planted.plant import Plant, PlantedTransport

__all__ = ["STEP_PLANTS"]

P, T, R = "parity --suite step", "pytest --lucky-between", "replay"


class OneBit(PlantedTransport):
    """The lowest bit of one observation of the last env, in one exchange."""

    def change(self, frame: Frame) -> None:
        if self.exchange == 97:
            frame.observations[-1, 0:1].view("uint32")[0] ^= 1


STEP_PLANTS: tuple[Plant, ...] = (
    Plant(
        "one bit",
        "the lowest bit of one observation of the last env, in one exchange",
        OneBit,
        found={P: ("observation of env 3 at [0]",), T: ("observation", "env", "3"), R: ("observation[env 3][0]",)},
    ),
)
