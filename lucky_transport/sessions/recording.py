"""Recording what a world was given, and showing it again.

Rule 1: a world is what its map, seed, options and actions make of it, so nothing else is kept.
Rule 2: actions are kept under the tick before which they were given; a world that is shown again takes those and no
        others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.session import RecordedActions, SessionAction, SessionRecording
from lucky_transport.world import World

__all__ = ["RecordedWorld", "ReplayedWorld"]


class _Around(World):
    """A world that is another one, for subclasses that listen in."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._follow()

    def act(self, actions: Sequence[Any]) -> None:
        self._world.act(actions)

    def tick(self) -> Sequence[str]:
        events = self._world.tick()
        self._follow()
        return events

    def observe(self) -> Any:
        return self._world.observe()

    def close(self) -> None:
        self._world.close()

    def _follow(self) -> None:
        """Stand where the inner world stands."""
        world = self._world
        self.ticks, self.is_over, self.result, self.score = world.ticks, world.is_over, world.result, world.score


class RecordedWorld(_Around):
    """A world whose actions go into `recording` as well; a new start begins it anew."""

    def __init__(self, world: World, recording: SessionRecording) -> None:
        super().__init__(world)
        self.recording = recording

    def act(self, actions: Sequence[Any]) -> None:
        entries = self.recording.actions
        if not entries or entries[-1].tick != self.ticks:
            entries.append(RecordedActions(self.ticks))
        entries[-1].actions += [SessionAction(encode(action)) for action in actions]
        super().act(actions)

    def tick(self) -> Sequence[str]:
        events = super().tick()
        self.recording.ticks = self.ticks
        return events


class ReplayedWorld(_Around):
    """A recording that is shown again: it takes no actions but the recorded ones and is over when the recording is."""

    def __init__(self, world: World, recording: SessionRecording, action: type[Any]) -> None:
        super().__init__(world)
        self._end = recording.ticks
        self._recorded = {
            entry.tick: [decode(action, one.payload) for one in entry.actions] for entry in recording.actions
        }
        self._follow()

    def act(self, actions: Sequence[Any]) -> None:
        """Nothing: it is a recording."""

    def tick(self) -> Sequence[str]:
        if actions := self._recorded.get(self.ticks):
            self._world.act(actions)
        return super().tick()

    def _follow(self) -> None:
        super()._follow()
        if self.ticks >= getattr(self, "_end", self.ticks + 1) and not self.is_over:
            self.is_over, self.result = True, "replayed"
