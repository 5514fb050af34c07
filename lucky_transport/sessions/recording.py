"""The factories of a session's world: plain, recorded or replayed.

A world is what its map, seed, options and actions make of it, so a recording holds nothing else. Actions are kept
under the tick before which they were given.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import LocalProtocolError, RemoteProtocolError, SpecError
from lucky_transport.foreign_code import foreign_code
from lucky_transport.messages import RecordedActions, SessionAction, SessionRecording
from lucky_transport.nesting import json_object
from lucky_transport.world import World, Worlds


class _WorldProxy(World):
    """A world that forwards to another one, for subclasses that intercept calls."""

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
        """Copy the inner world's progress."""
        world = self._world
        self.ticks, self.is_over, self.result, self.score = world.ticks, world.is_over, world.result, world.score


class RecordedWorld(_WorldProxy):
    """A world whose actions also go into `recording`."""

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


class ReplayedWorld(_WorldProxy):
    """A world that takes the recorded actions and no others, and is over where the recording ends."""

    def __init__(self, world: World, actions: Mapping[int, Sequence[Any]], ticks: int) -> None:
        super().__init__(world)
        self._end = ticks
        self._recorded = actions
        self._follow()

    def act(self, actions: Sequence[Any]) -> None:
        """Ignore the actions: the recorded ones are taken."""

    def tick(self) -> Sequence[str]:
        if actions := self._recorded.get(self.ticks):
            self._world.act(actions)
        return super().tick()

    def _follow(self) -> None:
        super()._follow()
        if self.ticks >= getattr(self, "_end", self.ticks + 1) and not self.is_over:
            self.is_over, self.result = True, "replayed"


class WorldFactory:
    """Makes worlds of one map with the same options. Raises SpecError for an unknown map, or an option."""

    def __init__(self, worlds: Worlds, engine: str, map_name: str, options: Mapping[str, Any]) -> None:
        self.map_name = map_name or worlds.maps[0]
        if self.map_name not in worlds.maps:
            raise SpecError(f"no map {self.map_name!r}", backend=engine, hint=f"there are {', '.join(worlds.maps)}")
        with foreign_code(engine, "its check of options"):
            try:
                worlds.check(options)
            except ValueError as error:
                raise SpecError(str(error), backend=engine) from error
        self._worlds = worlds
        self.options = dict(options)

    def make(self, seed: int | None) -> World:
        """Return a new world; may take long and raise anything."""
        return self._worlds.create(self.map_name, seed, self.options)

    def recording(self) -> SessionRecording:
        """Return what was recorded since the world was made. Raises LocalProtocolError if nothing is recorded."""
        raise LocalProtocolError("the session is not recorded", hint="create it with record=True")


class RecordingFactory(WorldFactory):
    """Makes recorded worlds; a world without a seed gets one, or it could not be made again."""

    _recording: SessionRecording | None = None

    def make(self, seed: int | None) -> World:
        seed = secrets.randbits(32) if seed is None else seed
        self._recording = SessionRecording(self.map_name, seed, json.dumps(self.options))
        return RecordedWorld(super().make(seed), self._recording)

    def recording(self) -> SessionRecording:
        return self._recording or super().recording()


class ReplayFactory(WorldFactory):
    """Makes the world of a recording and ignores the seed it is given."""

    def __init__(self, worlds: Worlds, engine: str, recording: SessionRecording) -> None:
        options = json_object(recording.options_json, "recording.options_json")
        super().__init__(worlds, engine, recording.map_name, options)
        self._recording = recording
        self._actions = {
            entry.tick: [_action(worlds.action, one, entry.tick, number) for number, one in enumerate(entry.actions)]
            for entry in recording.actions
        }

    def make(self, seed: int | None) -> World:
        return ReplayedWorld(super().make(self._recording.seed), self._actions, self._recording.ticks)

    def recording(self) -> SessionRecording:
        return self._recording


def _action(cls: type[Any], action: SessionAction, tick: int, number: int) -> Any:
    try:
        return decode(cls, action.payload)
    except RemoteProtocolError as error:
        raise SpecError(
            f"recording.actions before tick {tick}: action {number} is no {cls.__name__}: {error}",
            hint="replay a recording of this engine's worlds",
        ) from error
