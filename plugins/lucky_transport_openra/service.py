"""The unary methods of OpenRA-RL's bridge over an engine's sessions: a thin adapter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, UnknownSession
from lucky_transport.messages import SessionStatus
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.recording import WorldFactory
from lucky_transport.sessions.sessions import Sessions
from lucky_transport_openra import _pb
from lucky_transport_openra.options import ServerOptions
from lucky_transport_openra.wire import LOOK, BridgeCodec

_log = logging.getLogger("lucky_transport")
#: The map that the original's programs ask for by default.
_DEFAULT_MAP = "singles"
#: The most ticks of one call, as in the original.
MOST_TICKS = 5000

#: What the bridge calls a session's phase. The newer client waits for "playing" before its first call, so a session
#: that is ready says so; the older one takes any.
PHASES: Mapping[str, str] = {
    Phase.CREATING: "waiting",
    Phase.READY: "playing",
    Phase.PLAYING: "playing",
    Phase.OVER: "game_over",
    Phase.FAILED: "no_bridge",
    Phase.GONE: "no_bridge",
}

_SIDES = ("player", "opponent")
_PLAYERS: Mapping[str, Any] = {
    "player_count": len(_SIDES),
    "player_faction": _SIDES[0],
    "enemy_faction": _SIDES[1],
}
_WINNERS = {"win": _SIDES[0], "lose": _SIDES[1]}
_ENDED = (Phase.OVER, Phase.FAILED, Phase.GONE)


def clamped(ticks: int) -> int:
    """Return how many ticks are done for a call that asks for `ticks`."""
    return min(max(ticks, 1), MOST_TICKS)


class Reader:
    """One reader of one session, beginning at `seen`.

    An observation's reward is what the score gained since the reader's last one, its kills are those since.
    """

    def __init__(self, codec: BridgeCodec, session_id: str, seen: WorldSnapshot) -> None:
        self._codec = codec
        self.session_id = session_id
        self._ticks = seen.ticks
        self._score = seen.score
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, deadline: Deadline) -> Generator[None]:
        """Hold the reader from before an advance until it was read: what is gained is then counted where it was.

        Raises PeerTimeout.
        """
        if not self._lock.acquire(timeout=deadline.remaining_s):
            raise PeerTimeout(f"session {self.session_id} was in use for {deadline.timeout_s:g} s", hint="try again")
        try:
            yield
        finally:
            self._lock.release()

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


class BridgeService:
    """Answers the unary methods; `sessions`, `codec` and `options` are for the streams too.

    A call without a session id means the oldest session that goes on, else the newest. A stream without one takes the
    oldest that no other stream has taken, or a new one, so that clients do not meet.
    """

    def __init__(self, sessions: Sessions, codec: BridgeCodec, options: ServerOptions) -> None:
        self.sessions = sessions
        self.codec = codec
        self.options = options
        self._readers: dict[str, Reader] = {}
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self.is_closing = False
        WorldFactory(sessions.worlds, sessions.engine, *self._chosen("", ""))  # raises for options that no session has

    @property
    def unary(self) -> Mapping[str, Callable[[Any, Any], Any]]:
        """The handlers by name, called with request and gRPC's context; they raise TransportError."""
        return {
            "GetState": self._get_state,
            "FastAdvance": self._fast_advance,
            "CreateSession": self._create,
            "DestroySession": self._destroy,
        }

    def close(self) -> None:
        """The engine closes: streams end within a moment."""
        self.is_closing = True

    def claim(self) -> str:
        """Return the id of the oldest session that goes on and is not claimed, or of a new one."""
        with self._lock:
            claimed = next((one for one in self._going_on() if one not in self._claimed), None) or self.open()
            self._claimed.add(claimed)
            return claimed

    def give_up(self, session_id: str) -> None:
        """Destroy a session that was claimed."""
        self.sessions.destroy(session_id)
        with self._lock:
            self._claimed.discard(session_id)

    def _going_on(self) -> Iterator[str]:
        states = (self._state(session_id) for session_id in self.sessions.ids())
        return (state.session_id for state in states if state is not None and state.phase not in _ENDED)

    def open(self, map_name: str = "", bots: str = "", seed: int | None = None) -> str:
        """Create a session, as the server's options say where the caller does not, and return its id.

        Raises Busy, SpecError (unknown map or opponent).
        """
        named, options = self._chosen(map_name, bots)
        return self.sessions.create(named, seed, options)

    def _chosen(self, map_name: str, bots: str) -> tuple[str, Mapping[str, Any]]:
        """Return the map and the options of a session."""
        named, bots = map_name.removesuffix(".oramap"), bots or self.options.bots
        if named == _DEFAULT_MAP and named not in self.sessions.worlds.maps:
            played = self.options.map_name or self.sessions.worlds.maps[0]
            _log.info("openra: map %r is not here; %r is played", named, played)
            named = played
        return named or self.options.map_name, {"bots": bots} if bots else {}

    def reader(self, session_id: str, deadline: Deadline) -> Reader:
        """Return a reader that begins at the newest snapshot; waits until the world is built."""
        return Reader(self.codec, session_id, self.sessions.latest(session_id, -1, deadline))

    def deadline(self, context: Any) -> Deadline:
        """Return until when the caller waits, `longest_s` at most."""
        left_s = context.time_remaining()
        return Deadline(self.options.longest_s if left_s is None else min(left_s, self.options.longest_s))

    def _state(self, session_id: str) -> SessionStatus | None:
        try:
            return self.sessions.state(session_id)
        except UnknownSession:
            return None

    def _unnamed(self) -> str:
        """Return the id of the session that a call without one means, "" when there is none."""
        return next(self._going_on(), None) or next(reversed(self.sessions.ids()), "")

    def _get_state(self, request: Any, context: Any) -> Any:
        session_id = request.session_id or self._unnamed()
        if not session_id:
            # A client that knows no sessions finds a game, as at the original, whose game starts with its process. Ours
            # begins with the first call that plays.
            return _pb.GameState(phase=PHASES[Phase.READY], **_PLAYERS)
        state = self._state(session_id)
        if state is None:
            return _pb.GameState(phase="no_bridge")
        return _pb.GameState(
            episode_id=state.session_id,
            tick=state.ticks,
            phase=PHASES[state.phase],
            winner=_WINNERS.get(state.result, ""),
            **_PLAYERS,
        )

    def _fast_advance(self, request: Any, context: Any) -> Any:
        session_id = request.session_id
        if not session_id:
            with self._lock:
                session_id = self._unnamed() or self.open()
        deadline = self.deadline(context)
        reader = self._readers.get(session_id)
        if reader is None:
            reader = self._readers.setdefault(session_id, self.reader(session_id, deadline))
        every = max(request.check_events_every, 0)
        with reader.turn(deadline):
            seen = self.sessions.advance(
                session_id,
                0 if (LOOK, "1") in context.invocation_metadata() else clamped(request.ticks),
                [self.codec.action_from_wire(request.commands)] if request.commands else [],
                request.enabled_interrupts if every else (),
                deadline,
                check_every=every or 1,
                is_cancelled=lambda: not context.is_active(),
            )
            observation = reader.read(seen)
        observation.actual_ticks_advanced = seen.ticks_done
        observation.interrupted = bool(seen.interrupt)
        observation.interrupt_reason = seen.interrupt
        return observation

    def _create(self, request: Any, context: Any) -> Any:
        known = set(self.sessions.ids())
        for session_id in [one for one in tuple(self._readers) if one not in known]:
            self._readers.pop(session_id, None)  # no call destroys idle ones
        return _pb.CreateSessionResponse(session_id=self.open(request.map_name, request.bots, request.seed or None))

    def _destroy(self, request: Any, context: Any) -> Any:
        self.sessions.destroy(request.session_id)
        self._readers.pop(request.session_id, None)
        return _pb.DestroySessionResponse()
