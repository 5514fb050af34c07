"""Episodes on engines with worlds: each is a session, in lock-step or running by itself.

A world that runs by itself does not wait for a slow agent. The agent's next step takes effect in the next tick, and
shows the newest observation after that tick, with the number of ticks that have passed since its last one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, SessionEnded, SpecError, UnknownSession
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.sessions.sessions import Sessions
from lucky_transport_openenv.episode import Episode, Episodes, View, needs_reset, no_place
from lucky_transport_openenv.messages import message_of, plain_of, schema_of
from lucky_transport_openenv.options import ServerOptions

_CAPACITY = 16
_MOST_TICKS = 10_000


class WorldEpisodes(Episodes):
    """Starts sessions. Raises ConfigError for an unknown map of the endpoint, or a capacity beyond the sessions'."""

    has_ticks = True

    def __init__(self, sessions: Sessions, options: ServerOptions) -> None:
        self.engine = sessions.engine
        self.capacity = options.capacity or min(_CAPACITY, sessions.limits.sessions)
        self.sessions = sessions
        self.options = options
        worlds = sessions.worlds
        if self.capacity > sessions.limits.sessions:
            raise ConfigError(
                f"capacity={self.capacity}: the engine has {sessions.limits.sessions} sessions", backend="openenv"
            )
        if options.map_name and options.map_name not in worlds.maps:
            raise ConfigError(
                f"map={options.map_name}: engine {self.engine!r} has no such map",
                backend="openenv",
                hint=f"there are {', '.join(worlds.maps)}",
            )
        self.action_schema = {"type": "array", "items": schema_of(worlds.action)}
        self.observation_schema = schema_of(worlds.observation)

        self._lock = threading.Lock()
        self._players: set[WorldEpisode] = set()

    def open(self) -> WorldEpisode:
        with self._lock:
            if len(self._players) >= self.capacity:
                raise no_place(self.capacity)
            episode = WorldEpisode(self)
            self._players.add(episode)
            return episode

    def release(self, episode: WorldEpisode) -> None:
        """Take an episode's place back; idempotent."""
        with self._lock:
            self._players.discard(episode)


class WorldEpisode(Episode):
    """One session, made at the first reset and restarted at the next ones."""

    def __init__(self, episodes: WorldEpisodes) -> None:
        self._episodes = episodes
        self._sessions = episodes.sessions
        self._options = episodes.options
        self._action = episodes.sessions.worlds.action
        self._session = ""
        self._made_with: tuple[str, dict[str, Any]] | None = None
        self._ticks = 0
        self._score = 0.0
        self._has_ended = False

    def reset(self, seed: int | None, map_name: str, options: Mapping[str, Any]) -> View:
        made_with = (map_name or self._options.map_name, dict(options))
        first = self._restarted(seed) if made_with == self._made_with else None
        if first is None:
            self._end()
            self._session = self._sessions.create(made_with[0], seed, made_with[1])
            self._made_with = made_with
            first = self._sessions.advance(self._session, 0, deadline=self._deadline())
        self._ticks, self._score, self._has_ended = first.ticks, first.score, False
        if self._options.rate_hz is not None:
            self._sessions.run(self._session, self._options.rate_hz)
        view = self._view(first)
        return View(view.observation, None, view.terminated, False, view.ticks, 0, view.details)

    def _restarted(self, seed: int | None) -> WorldSnapshot | None:
        """Return the first snapshot of the same session, None where it is no more or has failed."""
        try:
            self._sessions.run(self._session, None)
            return self._sessions.restart(self._session, seed, self._deadline())
        except (UnknownSession, SessionEnded):
            return None

    def act(self, action: Any, ticks: int | None) -> View:
        actions = self._actions(action)
        self._check_under_way("step")
        if self._options.rate_hz is None:
            number = self._options.ticks if ticks is None else ticks
            if not 1 <= number <= _MOST_TICKS:
                raise SpecError(f"ticks {number}: expected 1 to {_MOST_TICKS:,}")
            return self._view(self._sessions.advance(self._session, number, actions, deadline=self._deadline()))
        if ticks is not None:
            raise SpecError(
                f"ticks {ticks}: this world runs by itself, at {self._options.rate_hz:g} ticks a second",
                hint="leave ticks out",
            )
        began = self._sessions.state(self._session)
        dropped = 0
        if actions and not began.is_over:
            dropped = self._sessions.act(self._session, actions)
        view = self._view(self._newest(began.ticks if not began.is_over else -1))
        if not dropped:
            return view
        details = {**view.details, "actions_dropped": dropped}
        return View(view.observation, view.reward, view.terminated, False, view.ticks, view.ticks_passed, details)

    def _newest(self, after_tick: int) -> WorldSnapshot:
        """Return the newest snapshot after that tick, the last one where the world ended at it."""
        try:
            return self._sessions.latest(self._session, after_tick, self._deadline())
        except SessionEnded:
            if not self._sessions.state(self._session).is_over:
                raise
            return self._sessions.latest(self._session, -1, self._deadline())

    def _actions(self, action: Any) -> Sequence[Any]:
        given = [] if action is None else action
        if not isinstance(given, list):
            raise TypeError(f"actions: expected a list of {self._action.__name__}, got {type(given).__name__}")
        return [message_of(self._action, one) for one in given]

    def observe(self) -> View:
        if not self._session:
            raise needs_reset("observe", False)
        if self._options.rate_hz is None:
            return self._view(self._sessions.advance(self._session, 0, deadline=self._deadline()))
        return self._view(self._newest(-1))

    def _view(self, seen: WorldSnapshot) -> View:
        passed, gained = seen.ticks - self._ticks, seen.score - self._score
        self._ticks, self._score, self._has_ended = seen.ticks, seen.score, seen.is_over
        details = {"result": seen.result, "score": seen.score}
        return View(plain_of(seen.observation), gained, seen.is_over, False, seen.ticks, passed, details)

    def keep(self) -> None:
        if self._session:
            with suppress(UnknownSession):
                self._sessions.state(self._session)

    def close(self) -> None:
        self._end()
        self._episodes.release(self)

    def _end(self) -> None:
        session, self._session, self._made_with = self._session, "", None
        if session:
            self._sessions.destroy(session)

    def _check_under_way(self, what: str) -> None:
        if not self._session or self._has_ended:
            raise needs_reset(what, bool(self._session))

    def _deadline(self) -> Deadline:
        return Deadline(self._options.longest_s)
