"""The contract of an engine of many worlds: `Worlds` makes them, a `World` is one, `WorldBatch` shows one as a row.

    world = worlds.create("flat", seed=7, options={})
    world.act([Command(move_right=True)])       # messages of `worlds.action`, in order
    events = world.tick()                       # names out of `worlds.events`
    message = world.observe()                   # a message of `worlds.observation`
    world.close()

A world is called by one thread at a time, not always the same one; different worlds run at the same time and share no
mutable state. Without an action a world goes on by itself. Equal map, seed, options and actions at equal ticks give
equal observations: recordings rely on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import ArraySpec, Part

__all__ = ["World", "WorldBatch", "WorldProgress", "Worlds"]


class WorldProgress(Protocol):
    """The progress of a world, as a `World` and a client's status of it show it."""

    @property
    def ticks(self) -> int:
        """Ticks since it began."""
        ...

    @property
    def is_over(self) -> bool:
        """True once it has ended; it does not change any more."""
        ...

    @property
    def result(self) -> str:
        """How it ended ("win", "lose", "out_of_range", ...), "" while it goes on."""
        ...

    @property
    def score(self) -> float:
        """What was reached so far."""
        ...


class World(ABC):
    """One independently advanced world. A subclass keeps the four attributes of `WorldProgress` up to date."""

    ticks: int = 0
    is_over: bool = False
    result: str = ""
    score: float = 0.0

    @abstractmethod
    def act(self, actions: Sequence[Any]) -> None:
        """Take actions, messages of `Worlds.action`, in order; they have their effect in the next `tick`.

        An action that makes no sense in this world is ignored: a bad action does not end the world.
        """

    @abstractmethod
    def tick(self) -> Sequence[str]:
        """Go on by one tick; return what happened in it, names out of `Worlds.events`. Not called once `is_over`."""

    @abstractmethod
    def observe(self) -> Any:
        """Return a fresh message of `Worlds.observation`; it does not change afterwards."""

    def restart(self, seed: int | None) -> bool:
        """Start over in place with `seed` (None: the world's own choice) and return True; False where it cannot be
        done, then a new world is created instead.
        """
        return False

    def close(self) -> None:  # noqa: B027 - most worlds hold nothing
        """Release what the world holds; called once, after everything else."""


class WorldBatch(ABC):
    """How a world is one row of a batch, so that worlds can be stepped as envs. It keeps nothing between calls.

    signals are the terms in the order reward_terms, termination_terms; timeout_terms are those that truncate. With
    parts, observation and action are the rows they are packed into (`lucky_transport.spec.composite.pack`).
    """

    observation: ArraySpec
    action: ArraySpec
    reward_terms: tuple[str, ...] = ("score",)
    termination_terms: tuple[str, ...] = ("over",)
    timeout_terms: tuple[str, ...] = ()
    observation_parts: tuple[Part, ...] = ()
    action_parts: tuple[Part, ...] = ()
    info_parts: tuple[Part, ...] = ()
    #: Ticks that one step takes.
    ticks_per_step: int = 1

    @abstractmethod
    def write(
        self, message: Any, progress: WorldProgress, gained: float, row: NDArray[Any], signals: NDArray[np.float32]
    ) -> None:
        """Write an observation message as one env's row.

        gained: by how much the score grew since the last row (0 right after a reset). row: the observation's dtype and
        shape. signals: float32 (terms,). Both are written in full and not kept.
        """

    @abstractmethod
    def actions(self, row: NDArray[Any]) -> list[Any]:
        """Return the messages of `Worlds.action` that one env's row of actions (dtype and shape of `action`) stands
        for.
        """


class Worlds(ABC):
    """What an engine of many worlds offers. `create` may be called from several threads at once.

    maps: the names `create` knows, the first is the default. action, observation: slots dataclasses that the derived
    codec can carry (see `lucky_transport.messages.fields`). events: every name `World.tick` can return. tick_s: the
    simulated time of one tick in seconds, and the pace of a session that runs freely "in real time". batch: None
    where a world cannot be a row. options: the names that `create` knows, None for any; a reset of a batch leaves
    others out, since frameworks pass names of their own.
    """

    maps: tuple[str, ...]
    action: type[Any]
    observation: type[Any]
    events: tuple[str, ...] = ()
    tick_s: float
    batch: WorldBatch | None = None
    options: tuple[str, ...] | None = None

    def check(self, options: Mapping[str, Any]) -> None:  # noqa: B027 - any option may be one that `create` takes
        """Raise ValueError, with the remedy, for options that `create` would refuse; never takes long."""

    @abstractmethod
    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> World:
        """Return a new world; may take long. map_name "" is the first of `maps`; seed None is the engine's choice.

        Raises ValueError, with the remedy, for an unknown map or option.
        """
