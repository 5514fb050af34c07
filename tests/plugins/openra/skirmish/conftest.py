"""Games for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport_openra.skirmish.messages import Command, Order, Orders
from lucky_transport_openra.skirmish.world import SkirmishWorld, SkirmishWorlds


@pytest.fixture
def new_world() -> Callable[..., SkirmishWorld]:
    """Make a game on the smallest map without an opponent who does anything; options as for `SkirmishWorlds`."""

    def make(map_name: str = "arena", seed: int = 1, **options: Any) -> SkirmishWorld:
        return SkirmishWorlds().create(map_name, seed, {"bots": "none", **options})

    return make


@pytest.fixture
def say() -> Callable[..., None]:
    """Give a world one order."""

    def give(world: SkirmishWorld, order: Order, **what: Any) -> None:
        world.act([Orders([Command(order, **what)])])

    return give


@pytest.fixture
def go_on() -> Callable[..., list[str]]:
    """Let a world go on by so many ticks, and return what happened."""

    def tick(world: SkirmishWorld, ticks: int) -> list[str]:
        happened: list[str] = []
        for _ in range(ticks):
            if world.is_over:
                break
            happened += world.tick()
        return happened

    return tick
