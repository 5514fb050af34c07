"""`make(framework=...)`: the mode that each training framework needs, and what LeRobot expects of an env."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from lucky_transport import api
from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport.registry import registry
from lucky_transport_frameworks.lerobot import LuckyLeRobotEnv
from lucky_transport_frameworks.modes import check_made_for
from lucky_transport_frameworks.rllib import configured

pytestmark = pytest.mark.usefixtures("forked_engines")


ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def make(**settings: Any) -> Any:
    return api.make("toy", 2, transport="inproc", **settings)


@pytest.mark.parametrize("name", sorted(registry().frameworks))
def test_a_framework_chooses_its_mode(name: str) -> None:
    with make(framework=name) as env:
        assert env.autoreset_mode is AutoresetMode(registry().framework(name).autoreset_mode)


def test_without_a_framework_the_mode_is_gymnasiums_own() -> None:
    with make() as env:
        assert env.autoreset_mode is AutoresetMode.NEXT_STEP


def test_a_mode_that_agrees_may_be_named_too_and_another_is_refused() -> None:
    with make(framework="sb3", autoreset_mode="SAME_STEP") as env:
        assert env.autoreset_mode is AutoresetMode.SAME_STEP
    with pytest.raises(ConfigError, match=r"framework='torchrl'\) needs autoreset_mode 'Disabled', 'SameStep'"):
        make(framework="torchrl", autoreset_mode="SameStep")


@pytest.mark.parametrize("name", sorted(registry().frameworks))
def test_views_are_refused_where_the_framework_keeps_observations(name: str) -> None:
    if registry().framework(name).keeps_observations:
        with pytest.raises(ConfigError, match=f"{name} keeps an observation .*drop copy=False"):
            make(framework=name, copy=False)
    else:
        with make(framework=name, copy=False) as env:
            assert not env.copy


def test_an_adapter_refuses_an_env_that_hands_out_views() -> None:
    with make(autoreset_mode="SameStep", copy=False) as env:
        with pytest.raises(ConfigError, match=r"sb3 keeps an observation .*without copy=False"):
            check_made_for("sb3", env)
        check_made_for("lerobot", env)


def test_rllib_refuses_settings_that_hand_out_views() -> None:
    with pytest.raises(ConfigError, match=r"rllib keeps observations .*drop copy=False"):
        configured(None, "toy", copy=False)


def test_an_unknown_framework_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"no framework 'rslrl'; did you mean 'rsl_rl'\? known: cleanrl, .*torchrl"):
        make(framework="rslrl")


def test_a_pickled_env_keeps_the_mode() -> None:
    import pickle

    with api.make("toy", 2, framework="torchrl") as env, pickle.loads(pickle.dumps(env)) as again:
        assert again.autoreset_mode is AutoresetMode.DISABLED


def test_the_page_on_training_libraries_lists_the_frameworks() -> None:
    text = (ROOT / "docs" / "how-to" / "training-libraries.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+? \| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted((one.name, one.autoreset_mode) for one in registry().frameworks.values())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_a_page_gives_its_command(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 50
    assert ast.get_docstring(ast.parse(text))
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md")]
    assert any(f"python docs/examples/{example.name}\n" in page for page in pages)


# --- LeRobot's evaluation, its calls made by hand ---


def make_for_lerobot(engine: str = "toy", **settings: Any) -> Any:
    return api.make(engine, 2, transport="inproc", **{"framework": "lerobot", **settings})


@pytest.fixture
def env() -> Iterator[LuckyLeRobotEnv]:
    """Points without images, whose episodes last four steps."""
    wrapped = LuckyLeRobotEnv(make_for_lerobot(options={"episode_steps": 4}))
    yield wrapped
    wrapped.close()


def test_observations_are_dicts_in_their_space(env: LuckyLeRobotEnv) -> None:
    observation, _ = env.reset(seed=[3, 4], options={"lerobot_new_rollout": True})
    assert list(observation) == ["agent_pos"]
    assert observation in env.observation_space
    with make_for_lerobot() as plain:
        assert np.array_equal(plain.reset(seed=[3, 4])[0], observation["agent_pos"])


def test_an_episode_that_lasts_to_its_limit_is_a_success(env: LuckyLeRobotEnv) -> None:
    env.reset(seed=0)
    for _ in range(3):
        assert "final_info" not in env.step(np.zeros((2, 2), np.float32))[4]
    observation, _, terminated, truncated, info = env.step(np.zeros((2, 2), np.float32))
    assert truncated.all()
    assert not terminated.any()
    assert info["final_info"]["is_success"].tolist() == [True, True]
    assert info["final_obs"]["agent_pos"].shape == observation["agent_pos"].shape


def test_success_can_be_defined() -> None:
    env = LuckyLeRobotEnv(
        make_for_lerobot(options={"episode_steps": 2}),
        success=lambda terminated, truncated, info: np.array([False, True]),
    )
    env.reset(seed=0)
    env.step(np.zeros((2, 2), np.float32))
    info = env.step(np.zeros((2, 2), np.float32))[4]
    assert info["final_info"]["is_success"].tolist() == [False, True]
    env.close()


def test_the_attributes_that_an_evaluation_asks_for_are_there() -> None:
    pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")
    env = LuckyLeRobotEnv(make_for_lerobot("mujoco:quadruped-walk", render_mode="rgb_array", render_size=(24, 16)))
    observation, _ = env.reset(seed=[1, 2])
    assert observation in env.observation_space
    assert observation["pixels"].shape == (2, 16, 24, 3)
    assert observation["pixels"].std() > 5
    observation = env.step(np.zeros((2, 12), np.float32))[0]
    assert observation in env.observation_space
    assert env.call("_max_episode_steps") == (1000, 1000)
    assert env.get_attr("task") == ("walking", "walking")
    assert "walk" in env.call("task_description")[0]
    assert [image.shape for image in env.call("render")] == [(16, 24, 3)] * 2
    assert env.unwrapped.metadata["render_fps"] == 50
    env.close()


@pytest.mark.parametrize(
    ("engine", "settings", "text"),
    [
        ("toy", {"framework": "skrl"}, r"lerobot needs an env with autoreset_mode SAME_STEP.*framework='lerobot'"),
        ("toy:composite", {}, "LeRobot's agent_pos is a flat array"),
    ],
)
def test_an_env_that_does_not_fit_is_refused(engine: str, settings: dict[str, Any], text: str) -> None:
    with make_for_lerobot(engine, **settings) as env, pytest.raises(ConfigError, match=text):
        LuckyLeRobotEnv(env)
    with make_for_lerobot() as env, pytest.raises(ConfigError, match="render_mode='rgb_array'"):
        LuckyLeRobotEnv(env, pixels=True)
