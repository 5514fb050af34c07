"""The ways to the sessions of a skirmish engine: over shm, over OpenRA's bridge, and in this process.

Whatever was started for a way has ended when its context does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from lucky_transport.config import load_settings
from lucky_transport.process import EngineProcess
from lucky_transport.registry import load
from lucky_transport.sessions.api import SessionApi, WorldSnapshot
from lucky_transport.sessions.client import SessionClient, worlds_of
from lucky_transport.sessions.sessions import Sessions
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["ENGINE", "MAP", "OPTIONS", "RATE_HZ", "Look", "SessionVariant", "open_way"]

ENGINE, MAP = "skirmish", "arena"
OPTIONS = {"bots": "none"}  # no opponent, which could end a game while it is measured
#: Of sessions that run at a rate: over the bridge that is the engine's to say.
RATE_HZ = 100

#: Returns the newest look, later than the tick it is given.
Look = Callable[[int], WorldSnapshot]


@dataclass(frozen=True, slots=True)
class SessionVariant:
    """sessions: what can be done. watch(id): returns how its newest look is seen. pid: the engine's, None for ours."""

    sessions: SessionApi
    watch: Callable[[str], Look]
    pid: int | None = None


@contextmanager
def open_way(path: str, wait: str | None) -> Generator[SessionVariant]:
    """Yield the way called `path`. Raises what starting an engine and connecting raise."""
    if path == "shm":
        with ConnectedEngine(find_path("shm"), ENGINE, 1, wait=wait) as link:
            client = SessionClient(link.transport)
            yield SessionVariant(client, lambda session: client.watch(session).latest, link.pid)
    elif path == "openra":
        with _bridge() as way:
            yield way
    else:
        with closing(Sessions(worlds_of(ENGINE), ENGINE)) as sessions:
            yield SessionVariant(sessions, _looker(sessions))


@contextmanager
def _bridge() -> Generator[SessionVariant]:
    engine = EngineProcess(ENGINE, [f"openra://127.0.0.1:0?rate={RATE_HZ}"])
    try:
        connect: Any = load("lucky_transport_openra.bridge_sessions:BridgeSessions", owner="openra", extra="openra")
        with closing(connect(engine.endpoints[0], load_settings())) as sessions:
            yield SessionVariant(sessions, _looker(sessions), engine.pid)
    finally:
        engine.stop()


def _looker(sessions: SessionApi) -> Callable[[str], Look]:
    return lambda session: lambda after_tick: sessions.latest(session, after_tick)
