"""`observations_torch` shows the frame of the last step or reset, whatever its memory and however it is copied."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import PeerDied
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from tests.gpu.conftest import LARGE, NUM_ENVS, SMALL, Gpu, actions_at, reference

HOST = "frames in a segment"
DEVICE = "frames in the engine's device memory"
ORDERED = "frames and actions there, in the order of events"


@pytest.fixture(params=[1, 2], ids=["one slot", "two slots"])
def slots(request: pytest.FixtureRequest) -> int:
    return request.param


@contextmanager
def both(
    gpu: Gpu, frames: str, obs_size: int = SMALL, *, slots: int = 1, **options: Any
) -> Iterator[tuple[VectorEnv, VectorEnv]]:
    """Yield an env, reset with seed 4, and what shows the same."""
    if frames != HOST:
        engine = gpu.start(obs_size=obs_size, slots=slots, on_stream=frames == ORDERED)
    else:
        serving = {"num_envs": NUM_ENVS, "options": {"obs_size": obs_size}, "observation_slots": slots}
        engine = api.serve("toy", f"shm://{unique_name()}", **serving)
    with engine as served, reference(obs_size) as same:
        endpoint = served.endpoints[0] if isinstance(served, Serving) else served.endpoint
        with api.make(endpoint=str(endpoint), **options) as env:
            env.reset(seed=4)
            yield env, same


@pytest.mark.parametrize("copy", [True, False], ids=["copies", "views"])
@pytest.mark.parametrize("obs_size", [SMALL, LARGE], ids=["few", "many"])
@pytest.mark.parametrize("frames", [HOST, DEVICE, ORDERED])
def test_each_frame_is_shown_while_the_device_is_busy(
    gpu: Gpu, frames: str, obs_size: int, copy: bool, slots: int
) -> None:
    with both(gpu, frames, obs_size, slots=slots, copy=copy) as (env, same):
        wrong = 0
        for step in range(gpu.times(3000 if obs_size == SMALL else 500)):
            expected = same.step(actions_at(step))[0]
            if slots == 2 and step % 3 == 1:
                env.step_async(actions_at(step))
                env.step_wait()
            else:
                env.step(actions_at(step))
            if step % 50 == 7:
                gpu.busy()
            tensor = env.observations_torch("cuda")
            wrong += not np.array_equal(tensor.cpu().numpy(), expected)
        assert wrong == 0


def test_a_frame_is_copied_while_the_next_step_is_under_way(gpu: Gpu) -> None:
    options = {"num_envs": NUM_ENVS, "options": {"obs_size": LARGE}, "observation_slots": 2}
    with (
        api.serve("toy", f"shm://{unique_name()}", **options) as served,
        api.make(endpoint=str(served.endpoints[0])) as env,
        reference(LARGE) as same,
    ):
        expected = env.reset(seed=4)[0]
        for step in range(0, gpu.times(600), 2):
            gpu.busy()
            env.step_async(actions_at(step))
            tensor = env.observations_torch("cuda")
            following = env.step_wait()[0]
            gpu.assert_under_way(tensor)  # nothing had to wait for the copy yet
            np.testing.assert_array_equal(following, same.step(actions_at(step))[0])
            env.step(actions_at(step + 1))  # this one had
            np.testing.assert_array_equal(tensor.cpu().numpy(), expected)
            expected = same.step(actions_at(step + 1))[0]


@pytest.mark.parametrize("frames", [HOST, DEVICE, ORDERED])
def test_actions_on_the_device_step_as_the_same_actions_on_the_host(gpu: Gpu, frames: str) -> None:
    with both(gpu, frames) as (env, same):
        for step in range(gpu.times(1000)):
            gpu.busy()
            actions = gpu.tensor(actions_at(step)).to("cuda", copy=True)  # behind that work
            np.testing.assert_array_equal(env.step(actions)[0], same.step(actions_at(step))[0])


def test_a_long_run_with_moves_kills_and_resets_shows_no_wrong_value(gpu: Gpu) -> None:
    """100,000 steps on a device, in the lives of ten engines."""
    lives = 10 if gpu.is_real else 3
    wrong = 0
    for life in range(lives):
        with (
            gpu.start_program(move_every=97, on_stream=life % 4 > 1) as engine,
            api.make(endpoint=engine.endpoint, copy=bool(life % 2)) as env,
            reference() as same,
        ):
            env.reset(seed=4)
            for step in range(gpu.times(100_000) // lives):
                if step % 89 == 88:
                    env.reset(seed=step)
                    expected = same.reset(seed=step)[0]
                else:
                    env.step(gpu.tensor(actions_at(step)) if step % 2 else actions_at(step))
                    expected = same.step(actions_at(step))[0]
                wrong += not np.array_equal(env.observations_torch("cuda").cpu().numpy(), expected)
            assert engine.ask("moves") > 3
            engine.kill()
            with pytest.raises(PeerDied):
                env.step(actions_at(0))
    assert wrong == 0
