"""A library in an engine process: the same over every transport, bit for bit, and its end is an error of the client."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lucky_transport as lt
from lucky_transport.api import open_transport
from lucky_transport.client import Client
from lucky_transport.engine import RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout
from lucky_transport.process import unique_name
from lucky_transport.spec.composite import views
from lucky_transport.testing.trajectories import first_difference, random_actions, record_env
from tests.plugins.libenv.conftest import bound, made

pytestmark = pytest.mark.usefixtures("forked_engines")

HAS_GRPC = importlib.util.find_spec("grpc") is not None
WIRES = [
    "shm://{name}",
    pytest.param(
        "grpc://127.0.0.1:0", marks=pytest.mark.skipif(not HAS_GRPC, reason="pip install 'lucky-transport[grpc]'")
    ),
]


def trajectory(sample: str, endpoint: str, mode: str, handles: int) -> dict[str, NDArray[Any]]:
    settings = {"handles": handles, "seed_option": "seed"}
    options = {"episode_steps": 9, "libenv": settings}
    with (
        lt.serve(f"libenv:{sample}", endpoint.format(name=unique_name()), num_envs=4, options=options) as serving,
        VectorEnv(open_transport(serving.endpoints[0]), autoreset_mode=mode) as env,
    ):
        return record_env(env, 40, seed=5)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("mode", "handles"), [("NEXT_STEP", 1), ("SAME_STEP", 1), ("SAME_STEP", 4), ("DISABLED", 4)])
def test_trajectories_are_those_without_a_wire(sample: str, wire: str, mode: str, handles: int) -> None:
    expected = trajectory(sample, "inproc://{name}", mode, handles)
    assert expected["terminated"].any()
    assert not expected["truncated"].any()
    assert first_difference(trajectory(sample, wire, mode, handles), expected) is None


@pytest.mark.parametrize("transport", ["inproc", "shm", *(["grpc"] if HAS_GRPC else [])])
def test_a_state_that_was_kept_can_be_returned_to_over_every_transport(sample: str, transport: str) -> None:
    with lt.make(f"libenv:{sample}", 3, transport=transport) as env:
        env.reset()
        client = Client(env.transport)
        observations = env.step(env.transport.actions)[0]
        kept = client.state.get_state(env=2)
        for _ in range(3):
            env.step(env.transport.actions)
        answer = client.state.set_state(env=2, state=kept.state)
        parts = env.batch_spec.observation_parts
        row = np.frombuffer(answer.observation, np.uint8).reshape(1, -1)
        seen = views(row, parts)
        assert seen["position",][0].tolist() == observations["position"][2].tolist()
        assert seen["pixels",][0].tolist() == observations["pixels"][2].tolist()


def test_in_same_step_mode_the_trajectory_is_the_librarys_own(sample: str) -> None:
    """No step is lost at an end: what the env shows is what act and observe give, and there is no final observation."""
    found = trajectory(sample, "inproc://{name}", "SAME_STEP", 1)
    with bound(made(sample, 4, episode_steps=9, seed=5)) as (engine, buffers):
        generator = np.random.default_rng(5)
        engine.step(np.full(4, RESET, np.uint8))
        for step in range(1, 41):
            buffers.actions[:] = random_actions(engine.spec, generator)
            engine.step(None)
            seen = views(buffers.observations, engine.spec.observation_parts)
            assert found['observations["position"]'][step].tobytes() == seen["position",].tobytes(), step
            assert found["rewards"][step].tobytes() == buffers.rewards.tobytes(), step


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Generator[None]:
    mine = f"lucky_{os.getpid()}_"

    def left() -> set[str]:
        return {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(mine)}

    before = left()
    yield
    assert left() == before


def step_until_it_ends(env: lt.VectorEnv) -> None:
    for _ in range(10):
        env.step(env.transport.actions)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"exit_at": 3}, PeerDied, "exit status 7.*sample: asked to.*at act 3"),
        ({"crash_at": 3}, PeerDied, "signal SIGABRT.*sample: asked to.*at act 3"),
        ({"lines_per_act": 1000, "exit_at": 5}, PeerDied, "to whoever listens"),  # more than a pipe holds
        ({"hang_at": 3}, PeerTimeout, "within 0.5 s"),
    ],
    ids=["exit", "crash", "talkative", "hang"],
)
def test_a_library_that_ends_its_process_or_hangs_is_an_error(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with lt.make(f"libenv:{sample}", 2, options=options, transport="shm", step_timeout_s=0.5) as env:
        env.reset()
        with pytest.raises(kind, match=f"(?s){words}"):
            step_until_it_ends(env)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"pace": 1}, NotReachable, "exit status 1\n  sample: wrong type of option 'pace'"),
        ({"exit_at": True}, NotReachable, "wrong type of option 'exit_at'"),
        ({"makes_nothing": True}, EngineFailed, "libenv_make gave no env"),
    ],
)
def test_an_option_that_the_library_does_not_take_is_an_error_with_its_words(
    sample: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        lt.make(f"libenv:{sample}", 2, options=options, transport="shm")


def test_options_of_all_types_reach_the_library_as_what_they_are(sample: str) -> None:
    options = {"episode_steps": 7, "pace": 0.5, "makes_nothing": False, "name": b"maze"}
    with lt.make(f"libenv:{sample}", 2, options=options, transport="inproc") as env:
        env.reset()
        *_, info = env.step(env.transport.actions)
        assert bytes(info["name"][0]).rstrip(b"\0") == b"maze"
