"""The contract of an episode that an agent plays, and of what starts episodes on one engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import Busy, LocalProtocolError


@dataclass(frozen=True, slots=True)
class View:
    """What an agent gets to see, as JSON values.

    observation: the world's. reward: what was gained since the last view, None right after a reset. ticks: since the
    episode began. ticks_passed: since the last view; in a world that runs by itself these are those that the agent
    missed too. details: what else the engine tells.
    """

    observation: Any
    reward: float | None
    terminated: bool
    truncated: bool
    ticks: int
    ticks_passed: int
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def done(self) -> bool:
        """True when the episode has ended."""
        return self.terminated or self.truncated


class Episode(ABC):
    """One agent's episode, and the next one after each `reset`. Called by one thread at a time; `close` by any."""

    @abstractmethod
    def reset(self, seed: int | None, map_name: str, options: Mapping[str, Any]) -> View:
        """Start over and return the first view; waits until the world is built."""

    @abstractmethod
    def act(self, action: Any, ticks: int | None) -> View:
        """Take an action, JSON values as `Episodes.action_schema` has them, and return what came of it.

        ticks: how many the step takes, None for the endpoint's own number.
        """

    @abstractmethod
    def observe(self) -> View:
        """Return the present view without an action; a world that does not run by itself stands still."""

    @abstractmethod
    def keep(self) -> None:
        """Note that the agent is still there, though it calls nothing."""

    @abstractmethod
    def close(self) -> None:
        """End the episode and free its place; idempotent."""


class Episodes(ABC):
    """Starts the episodes of one engine.

    engine: its name. capacity: how many there may be at once. action_schema, observation_schema: JSON schemas.
    has_ticks: True where a step may take several ticks.
    """

    engine: str
    capacity: int
    action_schema: Mapping[str, Any]
    observation_schema: Mapping[str, Any]
    has_ticks: bool

    @abstractmethod
    def open(self) -> Episode:
        """Return an episode that waits for its first reset. Raises Busy when all places are taken."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what is held for episodes; called once, after all of them were closed."""


def needs_reset(what: str, has_ended: bool) -> LocalProtocolError:
    """Return the error of a call that needs an episode under way."""
    why = "the episode has ended" if has_ended else "no episode has begun"
    return LocalProtocolError(f"{what}: {why}", backend="openenv", hint="reset first")


def no_place(capacity: int) -> Busy:
    """Return the error of a reset that finds all places taken."""
    which = "the only episode is" if capacity == 1 else f"all {capacity} episodes are"
    return Busy(f"{which} in use", backend="openenv", hint="try again when one has been closed")
