"""The HTTP application: OpenEnv's own routes, and MCP's streamable HTTP beside them.

    /ws, /mcp, /schema, /metadata, /health     OpenEnv's
    /mcp/http                                  MCP's streamable HTTP, for any MCP client

OpenEnv's /reset and /step are not there: they forget the environment after each request. Episodes of MCP's clients are
sessions of OpenEnv's server too, so one idle time holds for all.

The capacity counts episodes, not connections: OpenEnv's server closes a connection that is one too many before its
client can have read why. A reset that finds no place is answered with an error instead, and may be tried again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from lucky_transport.errors import Busy, Status, status_of
from lucky_transport_openenv.access import OWNER
from lucky_transport_openenv.environment import EngineEnvironment, EngineEpisodes
from lucky_transport_openenv.episode import View
from lucky_transport_openenv.errors import EpisodeError
from lucky_transport_openenv.models import action_class
from lucky_transport_openenv.runtime import ConcurrencyConfig, FastMCP, HTTPEnvServer, SessionCapacityError, fastapi
from lucky_transport_openenv.tools import add_tools, play_tools

#: Connections beside those that play: they list tools, call the engine's methods, or wait for a place.
_ONLOOKERS = 16


class _Sessions(HTTPEnvServer):
    """OpenEnv's server with its sessions: each has an environment, and ends after its idle time.

    It keeps them under private names; all of these that the plugin uses are here.
    """

    def environments(self) -> list[EngineEnvironment]:
        """Return the environments of all sessions, from any thread."""
        return [environment for environment in list(self._sessions.values()) if environment is not None]

    def environment(self, session_id: str) -> EngineEnvironment | None:
        """Return the environment of a session, None where there is no such session."""
        return self._sessions.get(session_id)

    async def begin_session(self) -> tuple[str, EngineEnvironment]:
        """Return a new session's id and its environment. Raises EpisodeError when there is no place."""
        try:
            return await self._create_session()
        except SessionCapacityError as error:
            busy = Busy(f"{error.max_sessions} connections are open", backend="openenv", hint="close one first")
            raise EpisodeError(status_of(busy), str(busy)) from error

    def touch_session(self, session_id: str) -> None:
        """Start the session's idle time anew."""
        self._update_session_activity(session_id)

    async def end_session(self, session_id: str) -> None:
        """End a session and close its environment."""
        await self._destroy_session(session_id)

    @asynccontextmanager
    async def keeping_sessions(self) -> AsyncGenerator[None]:
        """End sessions that are idle for too long, and all of them at the end."""
        self._start_reaper()
        try:
            yield
        finally:
            self._stop_reaper()
            for session_id in list(self._sessions):
                await self._destroy_session(session_id)
            self._executor.shutdown(wait=False)


class EpisodeServer(_Sessions):
    """OpenEnv's server, whose sessions MCP can name: an ASGI application.

    longest_s: how long a call may wait.
    """

    def __init__(self, offer: EngineEpisodes, idle_s: float, longest_s: float) -> None:
        super().__init__(
            partial(EngineEnvironment, offer),
            action_class(offer.episodes),
            offer.observation,
            concurrency_config=ConcurrencyConfig(max_concurrent_envs=_connections(offer), session_timeout=idle_s),
        )
        self._offer = offer
        self._idle_s = idle_s
        self._longest_s = longest_s
        self._ids: dict[tuple[bytes | str, str], str] = {}  # owner, episode -> session of OpenEnv's server
        self._loop: asyncio.AbstractEventLoop | None = None
        mcp = FastMCP(offer.episodes.engine)
        add_tools(mcp, [*offer.tools, *play_tools(self, offer.episodes, by_id=True)])
        self._mcp_app = mcp.http_app(path="/http")
        self._app = fastapi.FastAPI(title=f"{offer.episodes.engine} as an OpenEnv environment", lifespan=self._lifespan)
        self.register_routes(self._app, mode="production")  # without /reset, /step and /state
        self._app.mount("/mcp", self._mcp_app)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncGenerator[None]:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_connections(self._offer), "lucky-openenv-step"))
        keeping = self._loop.create_task(self._keep_episodes())
        async with self.keeping_sessions():
            try:
                async with self._mcp_app.lifespan(app):
                    yield
            finally:
                keeping.cancel()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection or request. OpenEnv's server closes what is closed already: that is no error."""
        with suppress(fastapi.WebSocketDisconnect):
            await self._app(scope, receive, send)

    def end_episodes(self) -> None:
        """End all episodes, and the steps that wait in them, from any thread: the server is about to stop."""
        for environment in self.environments():
            environment.close_episode()

    async def _keep_episodes(self) -> None:
        """Keep what is open here from ending elsewhere for want of calls: an agent may think for long."""
        while True:
            await asyncio.sleep(min(self._idle_s / 4, 30.0))
            for environment in self.environments():
                environment.keep()

    # -- episodes by id, on the event loop -----------------------------------------------------------------------------

    async def _opened(self) -> EngineEnvironment:
        """Return the environment of a new episode. Raises EpisodeError."""
        session_id, environment = await self.begin_session()
        episode_id = uuid.uuid4().hex  # not the session's, by which OpenEnv's /ws and /mcp would find it
        environment.set_episode_id(episode_id)
        self._ids[OWNER.get(), episode_id] = session_id
        self._ids = {one: session for one, session in self._ids.items() if self.environment(session) is not None}
        return environment

    async def _found(self, episode_id: str) -> EngineEnvironment:
        session_id = self._ids.get((OWNER.get(), episode_id), "")
        environment = self.environment(session_id)
        if environment is None:
            known = f"no episode {episode_id!r} of this connection, or of its bearer token"
            raise EpisodeError(Status.NOT_FOUND, f"{known}; start_episode begins one and returns its episode_id")
        self.touch_session(session_id)
        return environment

    async def _ended(self, episode_id: str) -> None:
        await self._found(episode_id)
        await self.end_session(self._ids.pop((OWNER.get(), episode_id)))

    # -- the same for tools, on threads of their own (`play_tools.Table`) ----------------------------------------------

    def start(self, **arguments: Any) -> tuple[EngineEnvironment, View]:
        """Return the environment of a new episode and its first view. Raises EpisodeError."""
        environment = self._on_loop(self._opened())
        try:
            return environment, environment.begin(**arguments)
        except EpisodeError:
            self.end(environment.episode_id)
            raise

    def find(self, episode_id: str) -> EngineEnvironment:
        """Return the environment of that episode. Raises EpisodeError."""
        return self._on_loop(self._found(episode_id))

    def end(self, episode_id: str) -> None:
        """End that episode. Raises EpisodeError."""
        self._on_loop(self._ended(episode_id))

    def _on_loop(self, coroutine: Any) -> Any:
        assert self._loop is not None, "it serves"
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(self._longest_s)


def _connections(offer: EngineEpisodes) -> int:
    return offer.episodes.capacity + _ONLOOKERS
