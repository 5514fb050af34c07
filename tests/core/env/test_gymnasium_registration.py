"""`gymnasium.make_vec` finds our envs, whichever of the two packages is imported first."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, registry

from lucky_transport import api, registration
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, SpecError
from tests.support.waiting import PATIENCE_S


def _run(program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("env_id", sorted(registration.IDS))
def test_every_id_is_registered_with_a_vector_entry_point(env_id: str) -> None:
    spec = registry[env_id]
    assert spec.entry_point is None
    assert spec.vector_entry_point == "lucky_transport.api:make"


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
    assert _run(program) == "VectorEnv(toy, num_envs=2, transport=inproc, autoreset_mode=NEXT_STEP)"


@pytest.mark.exhaustive
@pytest.mark.parametrize("imports", ["import gymnasium", "import lucky_transport, gymnasium"])
def test_naming_the_module_in_the_id_is_enough(imports: str) -> None:
    program = (
        f"{imports}\nenv = gymnasium.make_vec('lucky_transport:lucky_transport/Env', engine='toy', num_envs=4, "
        "transport='inproc')\nprint(env)"
    )
    assert _run(program) == "VectorEnv(toy, num_envs=4, transport=inproc, autoreset_mode=NEXT_STEP)"


@pytest.mark.exhaustive
def test_importing_us_imports_neither_gymnasium_nor_numpy_and_leaves_no_hook_afterwards() -> None:
    program = (
        "import sys; before = list(sys.meta_path); import lucky_transport\n"
        "print(sorted({'gymnasium', 'numpy'} & set(sys.modules)), len(sys.meta_path) - len(before))\n"
        "import gymnasium; print(sys.meta_path == before)"
    )
    assert _run(program).splitlines() == ["[] 1", "True"]


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
    assert _run(program) == "gymnasium"


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


def test_a_made_env_can_be_pickled_with_its_spec() -> None:
    env = gymnasium.make_vec("lucky_transport/Toy-v0", num_envs=3, transport="inproc")
    again = pickle.loads(pickle.dumps(env))
    assert again.spec == env.spec
    again.close()
    env.close()


def test_the_default_number_of_envs_means_as_many_as_the_engine_has() -> None:
    """`make_vec` always passes num_envs, 1 unless told otherwise."""
    with api.serve("toy", "inproc://has_five", num_envs=5):
        env = gymnasium.make_vec("lucky_transport/Env", endpoint="inproc://has_five")
        assert env.num_envs == 5
        env.close()
        with pytest.raises(SpecError, match="num_envs 4 asked for, the engine at inproc://has_five has 5"):
            gymnasium.make_vec("lucky_transport/Env", num_envs=4, endpoint="inproc://has_five")


@pytest.mark.parametrize("name", ["obs_size", "max_episode_steps"])
def test_an_option_of_the_engine_is_refused_with_its_place(name: str) -> None:
    misplaced: dict[str, Any] = {name: 3}
    with pytest.raises(ConfigError, match=rf"setting '{name}'; .*belongs into options=\{{'{name}': \.\.\.\}}"):
        gymnasium.make_vec("lucky_transport/Toy-v0", transport="inproc", **misplaced)


def test_the_limit_of_episodes_is_an_option_of_the_engine() -> None:
    options = {"max_episode_steps": 3}
    engine = "gymnasium:CartPole-v1"
    made = gymnasium.make_vec("lucky_transport/Env", engine=engine, options=options, num_envs=2, transport="inproc")
    with closing(made) as env:
        env.reset(seed=0)
        assert [bool(env.step(np.array([0, 1]))[3].all()) for _ in range(3)] == [False, False, True]


def test_a_single_env_of_ours_does_not_exist() -> None:
    with pytest.raises(gymnasium.error.Error, match="entry_point is not specified"):
        gymnasium.make("lucky_transport/Toy-v0")
