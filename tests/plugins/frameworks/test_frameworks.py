"""`make(framework=...)`: the autoreset mode that each training framework needs, and what its users read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

from lucky_transport import api
from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport.registry import registry
from lucky_transport_frameworks.modes import check_made_for
from lucky_transport_frameworks.rllib import configured

pytestmark = pytest.mark.usefixtures("forked_engines")

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "lucky_transport_frameworks"
EXAMPLES = sorted(path for path in (PLUGIN / "examples").glob("*.py") if path.name != "__init__.py")


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
        check_made_for("ppo", env)


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


def test_the_plugins_readme_lists_the_frameworks() -> None:
    text = (PLUGIN / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(.+?)` \|", text, re.MULTILINE)
    assert rows == [(one.name, one.autoreset_mode, one.use) for one in registry().frameworks.values()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_its_page_gives_the_command(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert ast.get_docstring(ast.parse(text))
    page = (ROOT / "docs" / "how-to" / f"{example.stem.replace('_', '-')}.md").read_text(encoding="utf-8")
    assert f"python -m lucky_transport_frameworks.examples.{example.stem}" in page
    assert len(page.splitlines()) <= 80
