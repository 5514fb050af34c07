"""OpenEnv's environment over one engine: an episode, and the tools of the agent that plays it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import SessionEnded
from lucky_transport_openenv.episode import Episode, Episodes, View, needs_reset
from lucky_transport_openenv.errors import refused
from lucky_transport_openenv.models import EngineObservation, observation_of
from lucky_transport_openenv.runtime import EnvironmentMetadata, FastMCP, MCPEnvironment, State
from lucky_transport_openenv.tools import ToolInfo, add_tools, play_tools


@dataclass(frozen=True, slots=True)
class EngineEpisodes:
    """What environments of one engine are made of. observation: its class. tools: the engine's typed methods."""

    episodes: Episodes
    observation: type[EngineObservation]
    tools: tuple[ToolInfo, ...]
    summary: str


class EngineEnvironment(MCPEnvironment):
    """One client's environment. The episode's place is taken at the first reset and freed by `close`.

    Errors are `EpisodeError`, whose text begins with the name of a status.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, offer: EngineEpisodes) -> None:
        server = FastMCP(offer.episodes.engine)
        add_tools(server, [*offer.tools, *play_tools(self, offer.episodes)])
        super().__init__(server)
        self._offer = offer
        self._episode: Episode | None = None
        self._episode_id = ""
        self._steps = 0
        self._view: View | None = None
        self._is_closed = False
        self._lock = threading.Lock()  # a step and a tool of one client may come at once

    @property
    def episode_id(self) -> str:
        """The present episode's id, "" before the first reset."""
        return self._episode_id

    def set_episode_id(self, episode_id: str) -> None:
        """Set the id of the episode that is to begin, for a client that names none."""
        self._episode_id = episode_id

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        map_name: str = "",
        options: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> EngineObservation:
        """Start an episode and return its first observation. map_name, options: of the world."""
        view = self.begin(seed, episode_id, map_name, options, **unknown)
        return observation_of(self._offer.observation, view, self._episode_id)

    def begin(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        map_name: str = "",
        options: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> View:
        """Start an episode and return its first view."""
        with refused(self._offer.episodes.engine, "reset"), self._lock:
            if unknown:
                raise TypeError(f"reset takes no {', '.join(sorted(unknown))}: there are seed, map_name, options")
            if options is not None and not isinstance(options, Mapping):
                raise TypeError(f"options: expected an object, got {type(options).__name__}")
            self._check_open()
            if self._episode is None:
                self._episode = self._offer.episodes.open()
            self._view = self._episode.reset(seed, map_name, options or {})
            self._episode_id = episode_id or self._episode_id or uuid.uuid4().hex
            self._steps = 0
            return self._view

    def act(self, action: Any, ticks: int | None) -> View:
        """Take one action and return what came of it."""
        with refused(self._offer.episodes.engine, "step"), self._lock:
            self._view = self._open_episode("step").act(action, ticks)
            self._steps += 1
            return self._view

    def observe(self) -> View:
        """Return the present view."""
        with refused(self._offer.episodes.engine, "observe"), self._lock:
            self._view = self._open_episode("observe").observe()
            return self._view

    def _open_episode(self, what: str) -> Episode:
        self._check_open()
        if self._episode is None:
            raise needs_reset(what, False)
        return self._episode

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionEnded("the episode was closed, or idle for too long", hint="connect again")

    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> EngineObservation:
        view = self.act(action.action, action.ticks)
        return observation_of(self._offer.observation, view, self._episode_id)

    @property
    def state(self) -> Any:
        """OpenEnv's state: the episode's id, its steps, and how far the last view saw it."""
        view = self._view
        return State(
            episode_id=self._episode_id or None,
            step_count=self._steps,
            engine=self._offer.episodes.engine,
            ticks=0 if view is None else view.ticks,
            done=view is not None and view.done,
        )

    def get_metadata(self) -> Any:
        """OpenEnv's description of the environment."""
        return EnvironmentMetadata(name=self._offer.episodes.engine, description=self._offer.summary)

    def keep(self) -> None:
        """Keep the episode from ending for want of calls."""
        episode = self._episode
        if episode is not None:
            episode.keep()

    def start(self, **arguments: Any) -> tuple[EngineEnvironment, View]:
        """Return itself and its first view: the agent of a connection has one environment."""
        return self, self.begin(**arguments)

    def find(self, episode_id: str) -> EngineEnvironment:
        """Return itself: the agent of a connection names no episode."""
        return self

    def end(self, episode_id: str = "") -> None:
        """End the episode and free its place; the next reset takes one again. A step under way ends at once."""
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.close()

    def close_episode(self) -> None:
        """End the episode for good, from any thread."""
        self._is_closed = True
        self.end()

    def close(self) -> None:
        """End everything; idempotent."""
        self.close_episode()
        super().close()
