"""The HTTP application: OpenEnv's own routes, with episodes behind plain HTTP, and MCP's streamable HTTP beside them.

    /ws, /mcp, /schema, /metadata, /health     OpenEnv's
    /reset, /step, /state, /close              the same over plain HTTP, by `episode_id`, for who began the episode
    /mcp/http                                  MCP's streamable HTTP, for any MCP client

OpenEnv's own /reset and /step forget the environment after each request. Here a reset begins an episode, or restarts
one, and the requests after it name it. All these are sessions of OpenEnv's server, so one idle time holds for all.

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
from typing import Annotated, Any

from lucky_transport.errors import Status
from lucky_transport_openenv.access import OWNER, respond
from lucky_transport_openenv.environment import EngineEnvironment, EngineEpisodes
from lucky_transport_openenv.episode import View
from lucky_transport_openenv.errors import EpisodeError
from lucky_transport_openenv.models import action_class
from lucky_transport_openenv.play_tools import play_tools
from lucky_transport_openenv.runtime import (
    ConcurrencyConfig,
    FastMCP,
    ResetRequest,
    ResetResponse,
    State,
    StepRequest,
    StepResponse,
    fastapi,
    pydantic,
)
from lucky_transport_openenv.session_server import SessionServer
from lucky_transport_openenv.tools import add_tools

#: Connections beside those that play: they list tools, call the engine's methods, or wait for a place.
_ONLOOKERS = 16


class EpisodeServer(SessionServer):
    """OpenEnv's server, whose sessions plain HTTP and MCP can name: an ASGI application.

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
        self._app.add_exception_handler(EpisodeError, respond)
        self._add_routes(self._app)
        self.register_routes(self._app)  # what is there already comes first
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

    async def _opened(self, episode_id: str = "") -> EngineEnvironment:
        """Return the environment of that episode, of a new one where there is none. Raises EpisodeError."""
        if self.environment(self._ids.get((OWNER.get(), episode_id), "")) is not None:
            return await self._found(episode_id)
        session_id, environment = await self.begin_session()
        episode_id = episode_id or uuid.uuid4().hex  # not the session's, by which OpenEnv's /ws and /mcp would find it
        environment.set_episode_id(episode_id)
        self._ids[OWNER.get(), episode_id] = session_id
        self._ids = {one: session for one, session in self._ids.items() if self.environment(session) is not None}
        return environment

    async def _found(self, episode_id: str) -> EngineEnvironment:
        session_id = self._ids.get((OWNER.get(), episode_id), "")
        environment = self.environment(session_id)
        if environment is None:
            known = "the request names no episode"
            if episode_id:
                known = f"no episode {episode_id!r} of this connection, or of its bearer token"
            raise EpisodeError(Status.NOT_FOUND, f"{known}; reset begins one and returns its episode_id")
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

    # -- plain HTTP ----------------------------------------------------------------------------------------------------

    def _add_routes(self, app: Any) -> None:
        app.add_api_route("/reset", self._reset, methods=["POST"], response_model=ResetResponse)
        app.add_api_route("/step", self._step, methods=["POST"], response_model=StepResponse)
        app.add_api_route("/state", self._state, methods=["GET"], response_model=State)
        app.add_api_route("/close", self._close, methods=["POST"])

    async def _reset(self, request: Annotated[Any, fastapi.Body()] = None) -> Any:
        asked = _valid(ResetRequest, request or {}).model_dump(exclude_unset=True)
        environment = await self._opened(asked.pop("episode_id", None) or "")
        try:
            return await self._answer(environment.reset, **asked)
        except EpisodeError:
            if not environment.has_episode:  # it found no place
                await self._ended(environment.episode_id)
            raise

    async def _step(self, request: Annotated[Any, fastapi.Body()]) -> Any:
        asked = _valid(StepRequest, request)
        environment = await self._found((asked.model_extra or {}).get("episode_id", ""))
        return await self._answer(environment.step, _valid(self.action_cls, asked.action))

    async def _state(self, episode_id: str = "") -> Any:
        return (await self._found(episode_id)).state

    async def _close(self, episode_id: Annotated[str, fastapi.Body(embed=True)]) -> Any:
        await self._ended(episode_id)
        return {"closed": True}

    async def _answer(self, call: Any, *arguments: Any, **named: Any) -> Any:
        seen = await asyncio.to_thread(call, *arguments, **named)
        return {
            "observation": seen.model_dump(exclude={"reward", "done", "metadata"}),
            "reward": seen.reward,
            "done": seen.done,
        }


def _connections(offer: EngineEpisodes) -> int:
    return offer.episodes.capacity + _ONLOOKERS


def _valid(kind: Any, values: Any) -> Any:
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'request'}: {one['msg']}" for one in error.errors())
        raise EpisodeError(Status.INVALID_ARGUMENT, told) from error
