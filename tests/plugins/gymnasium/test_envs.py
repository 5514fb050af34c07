"""Envs with nested spaces give what `SyncVectorEnv` gives, over any transport; those that cannot be made say why."""

import logging
import re
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lucky_transport import api
from lucky_transport.api import make_engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, MissingExtra, SpecError, UnknownName
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

        def make(mode: AutoresetMode, env_id: str = PATCHWORK, **options: Any) -> tuple[VectorEnv, SyncVectorEnv]:
            serving = api.serve(f"gymnasium:{env_id}", endpoint, num_envs=NUM_ENVS, options=options)
            stack.enter_context(serving)
            ours = stack.enter_context(api.make(endpoint=str(serving.endpoints[0]), autoreset_mode=mode))
            plain = options if env_id != PATCHWORK else {}
            theirs = SyncVectorEnv(
                [lambda: gymnasium.make(env_id, disable_env_checker=True, **plain)] * NUM_ENVS, autoreset_mode=mode
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


#: Envs of Gymnasium's own, whose episodes end soon enough.
TRAJECTORIES = [
    *((PATCHWORK, mode, {}) for mode in AutoresetMode),
    *(("CartPole-v1", mode, {}) for mode in AutoresetMode),
    ("Pendulum-v1", AutoresetMode.NEXT_STEP, {"max_episode_steps": 20}),
    ("FrozenLake-v1", AutoresetMode.NEXT_STEP, {"is_slippery": True}),
    ("MountainCarContinuous-v0", AutoresetMode.NEXT_STEP, {"max_episode_steps": 20}),
    ("Acrobot-v1", AutoresetMode.NEXT_STEP, {"max_episode_steps": 20}),
]


@pytest.mark.parametrize(("env_id", "mode", "options"), TRAJECTORIES)
def test_trajectories_are_those_of_sync_vector_env_bit_for_bit(
    pairs: Any, env_id: str, mode: AutoresetMode, options: dict[str, Any]
) -> None:
    ours, theirs = pairs(mode, env_id, **options)
    theirs.action_space.seed(7)
    _assert_same(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    endings = 0
    for _ in range(60):
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
    assert endings > 5


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


def shown(*part: str, value: Any) -> dict[str, Any]:
    """Return the options of a Patchwork that shows this in the place of that part of its observation."""
    return {"replaces": (part, value)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stretches": True}, '["camera"]["right"] has shape (), its observation_space says (1, 1)'),
        ({"lacks": "gears"}, " has no 'gears', which its observation_space has"),
        (shown("camera", "right", value=np.array([[254.7]])), '["camera"]["right"] has 254.7 (float64) at [0, 0]'),
        (shown("camera", "right", value=[[70_000]]), '["camera"]["right"] has 70000 (int64) at [0, 0]'),
        (shown("camera", "right", value=[[-3]]), '["camera"]["right"] has -3 (int64) at [0, 0]'),
        (shown("gears", value=np.array([[1.0, 2.0], [3.0, np.nan]])), '["gears"] has nan (float64) at [1, 1]'),
    ],
)
def test_a_part_that_would_become_another_value_is_refused_over_every_transport(
    pairs: Any, options: dict[str, Any], text: str
) -> None:
    ours, _ = pairs(AutoresetMode.NEXT_STEP, **options)
    with pytest.raises((SpecError, EngineFailed), match=re.escape(f"gymnasium:{PATCHWORK}: env 0: observation{text}")):
        ours.reset()


def test_multi_discrete_and_multi_binary_alone_travel_as_one_array() -> None:
    engine = api.make_engine("gymnasium:lucky_test/Spaces-v0", 2, observation="lamps", action="gears")
    assert (engine.spec.observation_parts, engine.spec.action_parts) == ((), ())
    assert engine.spec.observation_space() == gymnasium.spaces.MultiBinary([2, 2])
    assert engine.spec.action_space() == gymnasium.spaces.MultiDiscrete([2, 3])


# --- making envs: each failure has an error with a remedy, and leaves no env open ---


DIFFERING = "env 1 has other spaces than env 0"
BROKEN = "lucky_test/Broken-v0: RuntimeError: no wheels"
OPTIONS = "no option 'wheels'; options: sutton_barto_reward, render_mode, "
MODULE = "no Gymnasium env 'nobody/Qwxyz-v3'; write gymnasium:MODULE:nobody/Qwxyz-v3, with the module that"

#: Env, options, error and its words.
REFUSALS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("", {}, UnknownName, "needs an env id; use gymnasium:CartPole-v1"),
    ("CartPool-v1", {}, UnknownName, "no Gymnasium env 'CartPool-v1'; did you mean 'CartPole-v1'"),
    ("CartPole-v99", {}, UnknownName, "did you mean 'CartPole-v1'"),
    ("Cart Pole!", {}, UnknownName, "Malformed environment ID"),
    ("nobody/Qwxyz-v3", {}, UnknownName, MODULE),
    ("no_such_module:Thing-v0", {}, MissingExtra, "no_such_module"),
    ("gymnasium.envs.classic_control:CartPole-v1", {"render_mod": 3}, ConfigError, "did you mean 'render_mode'?"),
    ("CartPole-v1", {"wheels": 3}, ConfigError, OPTIONS),
    ("CartPole-v1", {"render_mod": 3}, ConfigError, "no option 'render_mod'; did you mean 'render_mode'? options"),
    ("CartPole-v1", {"num_envs": 0}, ConfigError, "num_envs = 0; expected a whole number of envs, at least 1"),
    ("lucky_test/Spaces-v0", {"differing": True}, SpecError, DIFFERING),
    ("lucky_test/Broken-v0", {}, EngineFailed, BROKEN),
    *(
        ("lucky_test/Spaces-v0", {what: kind}, SpecError, f"gymnasium:lucky_test/Spaces-v0: {what} space{text}")
        for what in ("observation", "action")
        for kind, text in {
            "text": ": Text spaces cannot travel",
            "graph": ": Graph spaces cannot travel",
            "sequence": ": Sequence spaces cannot travel",
            "deep_text": '["a"][1]: Text spaces cannot travel',
            "empty": '["a"] is an empty Tuple',
            "numbered": " has the key 1; the keys of a Dict must be strings",
        }.items()
    ),
]


@pytest.mark.parametrize(("env_id", "options", "kind", "text"), REFUSALS)
def test_envs_that_cannot_be_made_are_refused_with_what_would_do(
    env_id: str, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        make_engine(f"gymnasium:{env_id}", **({"num_envs": 2} | options))


def test_a_module_before_the_id_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    registers = f"import gymnasium\ngymnasium.register('lucky_test/Registered-v0', {entry!r})\n"
    (tmp_path / "lucky_registers.py").write_text(registers)
    monkeypatch.syspath_prepend(tmp_path)
    make_engine("gymnasium:lucky_registers:lucky_test/Registered-v0", 1, disable_env_checker=False).close()


def test_a_failure_closes_the_envs_already_made(diaries: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    make, made = gymnasium.make, 0

    def make_two_at_most(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        made += 1
        if made > 2:
            raise RuntimeError("third time unlucky")
        return make(*args, **kwargs)

    monkeypatch.setattr(gymnasium, "make", make_two_at_most)
    with pytest.raises(EngineFailed, match="third time unlucky"):
        make_engine("gymnasium:lucky_test/Diary-v0", 4)
    assert [diary.closed for diary in diaries] == [True, True]


def test_what_gymnasium_warns_about_goes_to_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        make_engine("gymnasium:CartPole-v0", 3).close()
    (record,) = caplog.records
    assert "CartPole-v0 is out of date" in record.getMessage()
