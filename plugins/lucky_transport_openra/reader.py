"""What one reader of a session saw last, for the rewards and kills since then."""

from __future__ import annotations

from typing import Any

from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport_openra.codec import BridgeCodec

__all__ = ["Reader"]


class Reader:
    """One reader of one session, beginning at `seen`.

    An observation's reward is what the score gained since the reader's last one, its kills are those since.
    """

    def __init__(self, codec: BridgeCodec, session_id: str, seen: WorldSnapshot) -> None:
        self._codec = codec
        self.session_id = session_id
        self._ticks = seen.ticks
        self._score = seen.score

    def read(self, seen: WorldSnapshot) -> Any:
        """Return what was seen as a `GameObservation`."""
        observation: Any = self._codec.observation_to_wire(seen.observation)
        observation.episode_id = self.session_id
        observation.done = seen.is_over
        observation.result = seen.result
        observation.reward = seen.score - self._score
        old = sum(kill.tick <= self._ticks for kill in observation.kill_events)
        del observation.kill_events[:old]
        self._ticks, self._score = seen.ticks, seen.score
        return observation
