"""Gymnasium's ways: `make_vec` finds our envs, which do what its own do, also in its wrappers."""

import copy
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, registry
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from lucky_transport import api, registration
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError
from tests.support.command import python, stdout_of


def run_program(program: str) -> str:
    return stdout_of(python("-W", "error", "-c", program)).strip()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "imports",
    [
        "import gymnasium, lucky_transport",
        "import lucky_transport, gymnasium",
        "import lucky_transport\nfrom gymnasium.vector import VectorEnv\nimport gymnasium",
        "import lucky_transport.env.vector_env, gymnasium",
        "import gymnasium, lucky_transport.env.vector_env",
        "import lucky_transport, importlib; gymnasium = importlib.import_module('gymnasium')",
    ],
)
def test_the_order_of_imports_does_not_matter(imports: str) -> None:
    program = f"{imports}\nprint(gymnasium.make_vec('lucky_transport/Toy-v0', num_envs=2, transport='inproc'))"
    assert run_program(program) == "VectorEnv(toy, num_envs=2, transport=inproc, autoreset_mode=NEXT_STEP)"


@pytest.mark.exhaustive
@pytest.mark.parametrize("imports", ["import gymnasium", "import lucky_transport, gymnasium"])
def test_naming_the_module_in_the_id_is_enough(imports: str) -> None:
    program = (
        f"{imports}\nenv = gymnasium.make_vec('lucky_transport:lucky_transport/Env', engine='toy', num_envs=4, "
        "transport='inproc')\nprint(env)"
    )
    assert run_program(program) == "VectorEnv(toy, num_envs=4, transport=inproc, autoreset_mode=NEXT_STEP)"


@pytest.mark.exhaustive
def test_importing_us_imports_neither_gymnasium_nor_numpy_and_leaves_no_hook_afterwards() -> None:
    program = (
        "import sys; before = list(sys.meta_path); import lucky_transport\n"
        "print(sorted({'gymnasium', 'numpy'} & set(sys.modules)), len(sys.meta_path) - len(before))\n"
        "import gymnasium; print(sys.meta_path == before)"
    )
    assert run_program(program).splitlines() == ["[] 1", "True"]


@pytest.mark.exhaustive
def test_without_gymnasium_its_absence_is_reported_as_always() -> None:
    program = (
        "import sys, importlib.machinery as m\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith('gymnasium'): raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Nothing()); import lucky_transport\n"
        "try:\n    import gymnasium.envs.registration\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    assert run_program(program) == "gymnasium"


def test_installing_twice_registers_once() -> None:
    before, finders = dict(registry), list(sys.meta_path)
    registration.install()
    assert dict(registry) == before
    assert sys.meta_path == finders


def test_make_vec_passes_arguments_on_and_sets_the_spec() -> None:
    env = gymnasium.make_vec(
        "lucky_transport/Env", engine="toy", num_envs=3, transport="inproc", autoreset_mode="SameStep", copy=False
    )
    assert isinstance(env, VectorEnv)
    assert (env.num_envs, env.autoreset_mode) == (3, gymnasium.vector.AutoresetMode.SAME_STEP)
    assert env.spec is not None
    assert env.spec.id == "lucky_transport/Env"
    env.close()


def test_an_env_is_made_again_from_its_spec_and_from_the_specs_json() -> None:
    env = gymnasium.make_vec("lucky_transport/Toy-v0", num_envs=3, transport="inproc")
    assert env.spec is not None
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        again = gymnasium.make_vec(spec)
        assert repr(again) == repr(env)
        again.close()
    env.close()


@pytest.mark.parametrize("name", ["obs_size", "max_episode_steps"])
def test_an_option_of_the_engine_is_refused_with_its_place(name: str) -> None:
    misplaced: dict[str, Any] = {name: 3}
    with pytest.raises(ConfigError, match=rf"setting '{name}'; .*belongs into options=\{{'{name}': \.\.\.\}}"):
        gymnasium.make_vec("lucky_transport/Toy-v0", transport="inproc", **misplaced)


def test_a_single_env_of_ours_does_not_exist() -> None:
    with pytest.raises(gymnasium.error.Error, match="entry_point is not specified"):
        gymnasium.make("lucky_transport/Toy-v0")


pytest.importorskip("lucky_transport_gymnasium.engine")

NUM_ENVS = 3


def _pair(env_id: str, mode: AutoresetMode) -> tuple[VectorEnv, SyncVectorEnv]:
    ours = api.make(f"gymnasium:{env_id}", NUM_ENVS, transport="inproc", autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: gymnasium.make(env_id)] * NUM_ENVS, autoreset_mode=mode)
    return ours, theirs


def _assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    assert ours[0].dtype == theirs[0].dtype
    assert ours[0].tobytes() == theirs[0].tobytes()
    assert ours[1].tolist() == theirs[1].astype(np.float32).tolist()
    assert ours[2].tobytes() == theirs[2].tobytes()
    assert ours[3].tobytes() == theirs[3].tobytes()


def test_seeds_of_single_envs_and_partial_resets_are_those_of_sync_vector_env() -> None:
    ours, theirs = _pair("CartPole-v1", AutoresetMode.NEXT_STEP)
    with ours:
        for seed, mask in (([5, 900, 77], None), ([1, 2, 3], [True, False, True]), (None, [False, True, False])):
            options = [{} if mask is None else {"reset_mask": np.array(mask)} for _ in range(2)]
            found, _ = ours.reset(seed=seed, options=options[0])
            expected, _ = theirs.reset(seed=seed, options=options[1])  # pyright: ignore[reportArgumentType]
            assert found.tobytes() == expected.tobytes()
            actions = np.array([0, 1, 1])
            _assert_same(ours.step(actions), theirs.step(actions))
    theirs.close()


NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = [NEXT, SAME, OFF]

#: SAME_STEP statistics count the last step of an episode only from here on (Gymnasium pull request 1624).
COUNTS_SAME_STEP = tuple(int(part) for part in gymnasium.__version__.split(".")[:2]) >= (1, 4)


def _wrapped(mode: AutoresetMode = NEXT, *, copies: bool = True, **options: Any) -> VectorEnv:
    options = {"episode_steps": 5} | options
    return api.make("toy", 3, transport="inproc", options=options, autoreset_mode=mode, copy=copies)


def _results(env: Any, steps: int = 14, *, seed: int = 0, restart: bool = True) -> list[Any]:
    """Return what `steps` random steps gave; in DISABLED mode ended envs are reset at once."""
    generator = np.random.default_rng(seed)
    unwrapped: VectorEnv = env.unwrapped
    env.reset(seed=seed)
    results: list[Any] = []
    for _ in range(steps):
        actions = generator.uniform(-1, 1, unwrapped.batch_spec.action_shape).astype(np.float32)
        results.append(copy.deepcopy(env.step(actions)))  # wrappers change what they returned before
        ended = results[-1][2] | results[-1][3]
        if restart and unwrapped.autoreset_mode is OFF and ended.any():
            env.reset(options={"reset_mask": ended})
    return results


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_are_those_of_the_episodes(mode: AutoresetMode) -> None:
    if mode is SAME and not COUNTS_SAME_STEP:
        pytest.skip(f"Gymnasium {gymnasium.__version__} miscounts SAME_STEP episodes itself")
    plain = _results(_wrapped(mode), 12)
    with _wrapped(mode) as env:
        results = _results(wrappers.RecordEpisodeStatistics(env), 12)
    ends = [step for step, result in enumerate(plain) if (result[2] | result[3])[0]]
    assert len(ends) == 2
    start = 0
    for end in ends:
        info = results[end][4]
        assert info["_episode"][0]
        expected = sum(float(result[1][0]) for result in plain[start : end + 1])
        assert info["episode"]["r"][0] == pytest.approx(expected)
        assert info["episode"]["l"][0] == 5
        start = end + 1


def test_a_partial_reset_wipes_no_statistics_of_other_envs() -> None:
    """Gymnasium's own vector envs pop the mask out of the options, so that this wrapper no longer sees it."""
    env = wrappers.RecordEpisodeStatistics(_wrapped(OFF, episode_steps=100))
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros((3, 2)))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    env.step(np.zeros((3, 2)))
    assert env.episode_lengths.tolist() == [1, 5, 5]
    assert (env.episode_returns[1:] > env.episode_returns[0]).all()
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_everything_becomes_torch(mode: AutoresetMode) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    with _wrapped(mode) as env:
        wrapped: Any = wrappers.NumpyToTorch(env)
        wrapped.reset(seed=0)
        results = [wrapped.step(torch.zeros(3, 2)) for _ in range(5)]
        observations, rewards, terminated, _, info = results[-1]
        assert (observations.dtype, rewards.dtype, terminated.dtype) == (torch.float32, torch.float32, torch.bool)
        assert isinstance(info["reward_terms"]["alive"], torch.Tensor)
        assert ("final_obs" in info) == (mode is SAME)
