"""What clients do with an engine, one kind of work each, for runs that open, leave and kill connections.

    work = load("images")(endpoint)     # connects when it is first asked
    next(work); next(work)              # each goes on by one exchange, call, item or session
    work.close()                        # leaves as a program does that ends its `with` blocks

After `close` nothing of a workload is open. What comes back is checked as far as it follows from what was asked: an
answer that was torn, or belongs to something else, is a WrongAnswer. `settings` are those of the connection.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

import numpy as np

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import MissingExtra, Unimplemented
from lucky_transport.messages import SetStateRequest
from lucky_transport.sessions.client import SessionClient
from lucky_transport_migration.bench.echo_engine import shade
from tests.endurance import checked_engine
from tests.endurance.interrupted_loops import SET_STATE, long_state

__all__ = ["ENGINE", "SESSIONS_ENGINE", "WORKLOADS", "Workload", "WrongAnswer", "engine_of", "load"]

Workload = Callable[..., Generator[None]]

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


class WrongAnswer(AssertionError):
    """Something else came back than what was asked for."""


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


def steps(endpoint: str, **settings: Any) -> Generator[None]:
    """Reset an env and step it; each frame of a CheckedEngine has to be that of its actions."""
    with api.make(endpoint=endpoint, **settings) as env:
        env.reset(seed=1)
        actions = env.action_space.sample()
        is_checked = env.batch_spec.engine == checked_engine.NAME
        for number in itertools.count(1):
            actions[:, 0] = number % 1000 / 1000
            shown, rewards, *_ = env.step(actions)
            if is_checked:
                _expect(shown, checked_engine.observations(actions, shown.shape[1]), "the observations of a step")
                _expect(rewards, actions[:, 0], "the rewards of a step")
            yield


def calls(endpoint: str, **settings: Any) -> Generator[None]:
    """Make typed calls, inline ones and such that run in the pool, and some whose messages are long both ways."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened
        for number in itertools.count(1):
            client.scene.get_scene_info()
            is_long = number <= checked_engine.LONG_SENSOR
            for _ in range(3 if is_long else 1):  # so many that the ring comes round, and skips what is left at its end
                shown = client.lidar.get_lidar_beam_angles(sensor=number)
                _expect(shown.beams, number, "the number in a response")
                if shown.azimuth:
                    _expect(shown.azimuth, checked_engine.angles(number), "the angles in a response")
                    _expect(shown.elevation, shown.azimuth, "the further angles in a response")
            if is_long:
                state = long_state(number)
                with contextlib.suppress(Unimplemented):  # an engine of a kit
                    answer = client.transport.call(SET_STATE, SetStateRequest(0, state))
                    _expect(answer.observation, state, "the bytes of a long message")
            yield


def streams(endpoint: str, **settings: Any) -> Generator[None]:
    """Open streams and leave them after some items."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened
        while True:
            stream = client.agent.stream_policy_slot_state(slot_id=1_000_000, timeout_s=_timeout_s(settings))
            for number in range(_ITEMS):
                item = next(stream)
                _expect((item.slot_id, item.name), (number, "x" * len(item.name)), "an item of a stream")
            del stream
            yield


def images(endpoint: str, **settings: Any) -> Generator[None]:
    """Open image streams and leave them: unread, read, and while a view is looked at."""
    with api.connect(endpoint, **settings) as opened:
        client: Any = opened
        while True:
            beside = client.camera.stream_camera("beside", timeout_s=_timeout_s(settings))
            unread = client.camera.stream_camera("unread", timeout_s=_timeout_s(settings))
            for _ in range(_ITEMS):
                image = next(beside)
                _expect(bytes(image.data), bytes([shade(image.frame_number)]) * len(image.data), "an image")
            beside.cancel()
            del unread
            yield


def sessions(endpoint: str, **settings: Any) -> Generator[None]:
    """Create sessions, advance, watch and destroy them; the same seed and ticks give the same world."""
    with api.open_transport(endpoint, load_settings(settings)) as transport:
        client = SessionClient(transport)
        first: Any = None
        while True:
            session = client.create(seed=1)
            with contextlib.closing(client.watch(session, _deadline(settings))) as shared:
                client.advance(session, 2, deadline=_deadline(settings))
                seen = shared.latest(1, _deadline(settings))
            client.destroy(session)
            first = first or seen
            _expect((seen.ticks, seen.observation), (first.ticks, first.observation), "a snapshot of a session")
            yield


def _timeout_s(settings: Mapping[str, Any]) -> float | None:
    """Return the deadline of a stream, that of a call; None for none."""
    return settings.get("command_timeout_s")


def _deadline(settings: Mapping[str, Any]) -> Deadline | None:
    seconds = _timeout_s(settings)
    return None if seconds is None else Deadline(seconds)


def _expect(found: Any, expected: Any, what: str) -> None:
    if not np.array_equal(found, expected) if isinstance(found, np.ndarray) else found != expected:
        raise WrongAnswer(f"{what}: {found!r:.300}, expected {expected!r:.300}")
