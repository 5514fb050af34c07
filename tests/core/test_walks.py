"""The walks of `lucky_transport/README.md`: a step and a call enter each function that they name, in that order."""

from collections.abc import Generator
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from tests.support.walks import Hop, Recorder, check_walk, walk_of, watched_threads

PAGE = Path(__file__).parents[2] / "lucky_transport" / "README.md"
STEP = walk_of(PAGE, "One step over shared memory")
CALL = walk_of(PAGE, "One typed call over shared memory")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def endpoint(recorder: Recorder) -> Generator[str]:
    with watched_threads(recorder), lucky_transport.serve("toy", f"shm://{unique_name()}", num_envs=2) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture
def env(endpoint: str, recorder: Recorder) -> Generator[VectorEnv]:
    """An env that has stepped and called once: what is made at the first use is there."""
    with lucky_transport.make(endpoint=endpoint) as made:
        vars(made)["_plain_result"] = recorder.watched(vars(made)["_plain_result"])
        made.reset(seed=0)
        made.step(made.action_space.sample())
        made.client.scene.get_info()
        yield made


@pytest.mark.parametrize("walk", [STEP, CALL], ids=["step", "call"])
def test_a_walk_is_short_and_its_files_have_what_it_names(walk: list[Hop]) -> None:
    check_walk(PAGE, walk)


def test_a_step_goes_the_way_that_the_map_shows(env: VectorEnv, recorder: Recorder) -> None:
    actions = env.action_space.sample()
    assert recorder.missing(STEP, lambda: env.step(actions)) is None


def test_a_call_of_the_client_that_steps_goes_the_way_that_the_map_shows(env: VectorEnv, recorder: Recorder) -> None:
    assert recorder.missing(CALL, lambda: env.client.scene.get_info()) is None


@pytest.mark.usefixtures("env")
def test_a_call_of_another_client_goes_the_same_way(endpoint: str, recorder: Recorder) -> None:
    with lucky_transport.connect(endpoint) as client:
        assert recorder.missing(CALL, lambda: client.scene.get_info()) is None
