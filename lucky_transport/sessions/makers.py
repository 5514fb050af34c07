"""What makes the world of a session: plain, recorded or shown again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from lucky_transport.errors import LocalProtocolError, SpecError
from lucky_transport.messages.session import SessionRecording
from lucky_transport.sessions.recording import RecordedWorld, ReplayedWorld
from lucky_transport.world import World, Worlds

__all__ = ["PlainMaker", "RecordingMaker", "ReplayMaker", "WorldMaker"]


class PlainMaker:
    """Makes worlds of one map with the same options. Raises SpecError for an unknown map, or an option."""

    def __init__(self, worlds: Worlds, engine: str, map_name: str, options: Mapping[str, Any]) -> None:
        self.map_name = map_name or worlds.maps[0]
        if self.map_name not in worlds.maps:
            raise SpecError(f"no map {self.map_name!r}", backend=engine, hint=f"there are {', '.join(worlds.maps)}")
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
        """Return what was recorded so far. Raises LocalProtocolError where nothing is."""
        raise LocalProtocolError("the session is not recorded", hint="create it with record=True")


class RecordingMaker(PlainMaker):
    """The same, recorded; a world without a seed gets one, or it could not be made again."""

    _recording: SessionRecording | None = None

    def make(self, seed: int | None) -> World:
        seed = secrets.randbits(32) if seed is None else seed
        self._recording = SessionRecording(self.map_name, seed, json.dumps(self.options))
        return RecordedWorld(super().make(seed), self._recording)

    def recording(self) -> SessionRecording:
        return self._recording or super().recording()


class ReplayMaker(PlainMaker):
    """Makes the world of a recording, whatever seed is asked for."""

    def __init__(self, worlds: Worlds, engine: str, recording: SessionRecording) -> None:
        options: dict[str, Any] = json.loads(recording.options_json or "{}")
        super().__init__(worlds, engine, recording.map_name, options)
        self._recording = recording

    def make(self, seed: int | None) -> World:
        return ReplayedWorld(super().make(self._recording.seed), self._recording, self._worlds.action)

    def recording(self) -> SessionRecording:
        return self._recording


#: Any of them.
WorldMaker = PlainMaker
