"""Worlds whose every doing a test decides."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from lucky_transport.messages.scalars import U64
from lucky_transport.sessions.session import SessionLimits
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.world import World, Worlds
from tests.support.waiting import PATIENCE_S

#: Makes sessions with other limits, as `with` wants them.
Limited = Callable[..., AbstractContextManager[Sessions]]


@dataclass(slots=True)
class Order:
    """An order."""

    number: U64 = 0


@dataclass(slots=True)
class Sight:
    """What is to be seen: the tick, and the sum of all orders."""

    tick: U64 = 0
    total: U64 = 0


class ScriptedWorld(World):
    """A world that adds up its orders. on_tick: called in each tick, may block, raise, and return events."""

    def __init__(self, seed: int | None, on_tick: Callable[[World], Sequence[str] | None], last_tick: int) -> None:
        self.seed = seed
        self.given: list[tuple[int, list[int]]] = []
        self.closed = 0
        self._on_tick = on_tick
        self._last_tick = last_tick

    def act(self, actions: Sequence[Order]) -> None:
        self.given.append((self.ticks, [order.number for order in actions]))

    def tick(self) -> Sequence[str]:
        self.ticks += 1
        self.score = float(self.ticks)
        events = self._on_tick(self) or ()
        if self.ticks == self._last_tick:
            self.is_over, self.result = True, "done"
        return events

    def observe(self) -> Sight:
        return Sight(self.ticks, sum(sum(numbers) for _, numbers in self.given))

    def close(self) -> None:
        self.closed += 1


class ScriptedWorlds(Worlds):
    """made: all worlds so far. on_create: called before each is made; may block and raise."""

    maps = ("plain", "hills")
    action = Order
    observation = Sight
    events = ("rain", "sun")
    tick_s = 0.01

    def __init__(self) -> None:
        self.made: list[ScriptedWorld] = []
        self.on_create: Callable[[], object] = lambda: None
        self.on_tick: Callable[[World], Sequence[str] | None] = lambda world: None
        self.last_tick = 0

    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> ScriptedWorld:
        self.on_create()
        world = ScriptedWorld(seed, self.on_tick, self.last_tick)
        self.made.append(world)
        return world


@pytest.fixture
def worlds() -> ScriptedWorlds:
    """The worlds of `sessions`."""
    return ScriptedWorlds()


@pytest.fixture
def sessions(worlds: ScriptedWorlds) -> Generator[Sessions]:
    """Sessions with ordinary limits; nothing of them may be left when the test is over."""
    with opened(Sessions(worlds, "scripted")) as found:
        yield found


@contextmanager
def opened(sessions: Sessions) -> Generator[Sessions]:
    """Yield the sessions, close them and make sure that their threads end."""
    threads = set(threading.enumerate())
    try:
        yield sessions
    finally:
        stay = [thread.name for thread in set(threading.enumerate()) - threads if not thread.daemon]
        sessions.close()
        for thread in set(threading.enumerate()) - threads:
            if "session" in thread.name:
                thread.join(PATIENCE_S)
                assert not thread.is_alive(), f"{thread.name} goes on"
        assert not any("session" in name for name in stay), f"{stay} keep a program that forgot to close them"


@pytest.fixture
def limited(worlds: ScriptedWorlds) -> Limited:
    return lambda **limits: opened(Sessions(worlds, "scripted", SessionLimits(**limits)))
