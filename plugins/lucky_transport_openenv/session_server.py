"""The sessions of OpenEnv's server. It keeps them under private names; all of these that the plugin uses are here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lucky_transport.errors import Busy, status_of
from lucky_transport_openenv.environment import EngineEnvironment
from lucky_transport_openenv.errors import EpisodeError
from lucky_transport_openenv.runtime import HTTPEnvServer, SessionCapacityError


class SessionServer(HTTPEnvServer):
    """OpenEnv's server with its sessions: each has an environment, and ends after its idle time."""

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
