"""Envs with nested spaces behind any transport give, bit for bit, what Gymnasium's own `SyncVectorEnv` gives."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import EngineFailed, SpecError
from lucky_transport.process import unique_name
from lucky_transport.spec.composite import flat

PATCHWORK = "lucky_test/Patchwork-v0"
NUM_ENVS = 3

pytestmark = pytest.mark.usefixtures("diaries")


@pytest.fixture(params=["inproc:", "shm://{name}", "grpc://127.0.0.1:0?service=batch"])
def endpoint(request: pytest.FixtureRequest) -> str:
    if request.param.startswith("grpc"):
        pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    return request.param.format(name=unique_name())


@pytest.fixture
def pairs(endpoint: str) -> Generator[Any]:
    """Return a function that makes one of our envs and one of Gymnasium's, of the same kind."""
    with ExitStack() as stack:

        def make(mode: AutoresetMode, **options: Any) -> tuple[VectorEnv, SyncVectorEnv]:
            serving = api.serve(f"gymnasium:{PATCHWORK}", endpoint, num_envs=NUM_ENVS, options=options)
            stack.enter_context(serving)
            ours = stack.enter_context(api.make(endpoint=str(serving.endpoints[0]), autoreset_mode=mode))
            theirs = SyncVectorEnv(
                [lambda: gymnasium.make(PATCHWORK, disable_env_checker=True)] * NUM_ENVS, autoreset_mode=mode
            )
            stack.callback(theirs.close)
            return ours, theirs

        yield make


def _assert_same(ours: Any, theirs: Any) -> None:
    found, expected = flat("observation", ours), flat("observation", theirs)
    assert found.keys() == expected.keys()
    for place, array in expected.items():
        assert found[place].dtype == array.dtype, place
        assert found[place].shape == array.shape, place
        assert found[place].tobytes() == array.tobytes(), place


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_trajectory_is_that_of_sync_vector_env(pairs: Any, mode: AutoresetMode) -> None:
    ours, theirs = pairs(mode)
    theirs.action_space.seed(7)
    _assert_same(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    endings = 0
    for _ in range(40):
        actions = theirs.action_space.sample()
        found, expected = ours.step(actions), theirs.step(actions)
        _assert_same(found[0], expected[0])
        assert found[1].tolist() == expected[1].astype(np.float32).tolist()
        assert (found[2].tolist(), found[3].tolist()) == (expected[2].tolist(), expected[3].tolist())
        ended = found[2] | found[3]
        endings += int(ended.sum())
        if mode is AutoresetMode.SAME_STEP and ended.any():
            _assert_same_finals(found[4], expected[4], ended)
        if mode is AutoresetMode.DISABLED and ended.any():
            masks = [{"reset_mask": ended.copy()} for _ in range(2)]
            _assert_same(ours.reset(options=masks[0])[0], theirs.reset(options=masks[1])[0])
    assert endings > 10


def _assert_same_finals(ours: dict[str, Any], theirs: dict[str, Any], ended: Any) -> None:
    found = flat("final", ours["final_obs"])
    for env in np.flatnonzero(ended):
        for place, part in flat("final", theirs["final_obs"][env]).items():
            assert found[place][env].tobytes() == np.asarray(part, found[place].dtype).tobytes(), place
    assert not [place for place, array in found.items() if array[~ended].any()]


def test_the_spaces_are_those_of_sync_vector_env(pairs: Any) -> None:
    ours, theirs = pairs(AutoresetMode.NEXT_STEP)
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        assert getattr(ours, name) == getattr(theirs, name), name
    ours.action_space.seed(3)
    theirs.action_space.seed(3)
    _assert_same(ours.action_space.sample(), theirs.action_space.sample())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stretches": True}, 'observation["camera"]["right"] has shape (), its observation_space says (1, 1)'),
        ({"lacks": "gears"}, "observation has no 'gears', which its observation_space has"),
    ],
)
def test_an_observation_that_is_not_in_its_space_is_refused_by_its_part(
    pairs: Any, options: dict[str, Any], text: str
) -> None:
    ours, _ = pairs(AutoresetMode.NEXT_STEP, **options)
    with pytest.raises((SpecError, EngineFailed), match=re.escape(text)):
        ours.reset()


def test_multi_discrete_and_multi_binary_alone_travel_as_one_array() -> None:
    engine = api.make_engine("gymnasium:lucky_test/Spaces-v0", 2, observation="lamps", action="gears")
    assert (engine.spec.observation_parts, engine.spec.action_parts) == ((), ())
    assert engine.spec.observation_space() == gymnasium.spaces.MultiBinary([2, 2])
    assert engine.spec.action_space() == gymnasium.spaces.MultiDiscrete([2, 3])


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        (("camera", "right"), np.array([[254.7]]), 'observation["camera"]["right"] has 254.7 (float64) at [0, 0]'),
        (("camera", "right"), [[70_000]], 'observation["camera"]["right"] has 70000 (int64) at [0, 0]'),
        (("camera", "right"), [[-3]], 'observation["camera"]["right"] has -3 (int64) at [0, 0]'),
        (("gears",), np.array([[1.0, 2.0], [3.0, np.nan]]), 'observation["gears"] has nan (float64) at [1, 1]'),
    ],
)
def test_a_part_that_would_become_another_value_is_refused_over_every_transport(
    pairs: Any, part: tuple[str, ...], value: Any, text: str
) -> None:
    ours, _ = pairs(AutoresetMode.NEXT_STEP, replaces=(part, value))
    with pytest.raises((SpecError, EngineFailed), match=re.escape(f"gymnasium:{PATCHWORK}: env 0: {text}")):
        ours.reset()
