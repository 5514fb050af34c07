"""What clients do with an engine, one kind of work each, for runs that open, leave and kill connections.

    work = load("images")(endpoint)     # connects when it is first asked
    next(work); next(work)              # each goes on by one exchange, call, item or session
    work.close()                        # leaves as a program does that ends its `with` blocks

After `close` nothing of a workload is open.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from typing import Any, cast

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import MissingExtra
from lucky_transport.sessions.client import SessionClient

__all__ = ["SESSIONS_ENGINE", "WORKLOADS", "Workload", "engine_of", "load"]

Workload = Callable[[str], Generator[None]]

#: Where each kind of work is written; those of stubs need grpcio.
WORKLOADS = {
    "steps": f"{__name__}:steps",
    "calls": f"{__name__}:calls",
    "streams": f"{__name__}:streams",
    "images": f"{__name__}:images",
    "sessions": f"{__name__}:sessions",
    "stubs": "tests.endurance.stub_workloads:stubs",
    "aio": "tests.endurance.stub_workloads:aio_stubs",
}
ENGINE, SESSIONS_ENGINE = "echo", "cartpole"
#: Items read of each stream, and images.
_ITEMS = 3


def engine_of(kind: str) -> str:
    """Return the name of the engine that this kind of work needs."""
    return SESSIONS_ENGINE if kind == "sessions" else ENGINE


def load(kind: str) -> Workload:
    """Return the workload. Raises MissingExtra where its plugin cannot be imported."""
    module, _, name = WORKLOADS[kind].partition(":")
    try:
        return cast(Workload, getattr(importlib.import_module(module), name))
    except ImportError as error:
        raise MissingExtra(f"work of kind {kind!r} needs {error.name}", hint="install lucky-transport[grpc]") from error


def steps(endpoint: str) -> Generator[None]:
    """Reset an env and step it."""
    with api.make(endpoint=endpoint) as env:
        env.reset(seed=1)
        actions = env.action_space.sample()
        while True:
            env.step(actions)
            yield


def calls(endpoint: str) -> Generator[None]:
    """Make typed calls, inline ones and such that run in the pool."""
    with api.connect(endpoint) as opened:
        client: Any = opened
        while True:
            client.scene.get_scene_info()
            client.lidar.get_lidar_beam_angles()
            yield


def streams(endpoint: str) -> Generator[None]:
    """Open streams and leave them after some items."""
    with api.connect(endpoint) as opened:
        client: Any = opened
        while True:
            stream = client.agent.stream_policy_slot_state(slot_id=1_000_000)
            for _ in range(_ITEMS):
                next(stream)
            del stream
            yield


def images(endpoint: str) -> Generator[None]:
    """Open image streams and leave them: unread, read, and while a view is looked at."""
    with api.connect(endpoint) as opened:
        client: Any = opened
        while True:
            beside = client.camera.stream_camera("beside")
            unread = client.camera.stream_camera("unread")
            for _ in range(_ITEMS):
                next(beside)
            beside.cancel()
            del unread
            yield


def sessions(endpoint: str) -> Generator[None]:
    """Create sessions, advance, watch and destroy them."""
    with api.open_transport(endpoint, load_settings()) as transport:
        client = SessionClient(transport)
        while True:
            session = client.create(seed=1)
            client.advance(session, 2)
            client.destroy(session)
            yield
