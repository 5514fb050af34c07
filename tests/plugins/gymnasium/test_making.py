"""Making envs: each way in which it fails has an error with a remedy, and leaves no env open."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.api import make_engine
from lucky_transport.errors import ConfigError, EngineFailed, MissingExtra, SpecError, UnknownName


@pytest.mark.parametrize(
    ("env_id", "text"),
    [
        ("", "needs an env id; use gymnasium:CartPole-v1"),
        ("CartPool-v1", "no Gymnasium env 'CartPool-v1'; did you mean 'CartPole-v1'"),
        ("CartPole-v99", "did you mean 'CartPole-v1'"),
        ("Cart Pole!", "Malformed environment ID"),
        (
            "nobody/Qwxyz-v3",
            "no Gymnasium env 'nobody/Qwxyz-v3'; write gymnasium:MODULE:nobody/Qwxyz-v3, with the module that",
        ),
    ],
)
def test_an_unknown_id_is_answered_with_near_ones(env_id: str, text: str) -> None:
    with pytest.raises(UnknownName, match=text):
        make_engine(f"gymnasium:{env_id}", 2)


def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingExtra, match="no_such_module"):
        make_engine("gymnasium:no_such_module:Thing-v0", 1)


def test_a_module_before_the_id_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    registers = f"import gymnasium\ngymnasium.register('lucky_test/Registered-v0', {entry!r})\n"
    (tmp_path / "lucky_registers.py").write_text(registers)
    monkeypatch.syspath_prepend(tmp_path)
    make_engine("gymnasium:lucky_registers:lucky_test/Registered-v0", 1, disable_env_checker=False).close()


def test_an_option_of_an_env_with_a_module_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"no option 'render_mod'; did you mean 'render_mode'\?"):
        make_engine("gymnasium:gymnasium.envs.classic_control:CartPole-v1", 1, render_mod=3)


@pytest.mark.parametrize(
    ("env_id", "options", "text"),
    [
        ("CartPole-v1", {"wheels": 3}, r"no option 'wheels'; options: sutton_barto_reward, render_mode, .*max_episode"),
        ("CartPole-v1", {"render_mod": 3}, r"no option 'render_mod'; did you mean 'render_mode'\? options"),
        ("CartPole-v1", {"num_envs": 0}, "num_envs = 0; expected a whole number of envs, at least 1"),
    ],
)
def test_what_an_env_cannot_be_made_with_is_refused(env_id: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_engine(f"gymnasium:{env_id}", **({"num_envs": 2} | options))


@pytest.mark.parametrize("what", ["observation", "action"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text", ": Text spaces cannot travel"),
        ("graph", ": Graph spaces cannot travel"),
        ("sequence", ": Sequence spaces cannot travel"),
        ("deep_text", '["a"][1]: Text spaces cannot travel'),
        ("empty", '["a"] is an empty Tuple'),
        ("numbered", " has the key 1; the keys of a Dict must be strings"),
    ],
)
def test_spaces_that_cannot_travel_are_refused_by_name_and_place(
    diaries: list[Any], what: str, kind: str, text: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(f"gymnasium:lucky_test/Spaces-v0: {what} space{text}")):
        make_engine("gymnasium:lucky_test/Spaces-v0", 2, seed=None, **{what: kind})


def test_envs_of_differing_spaces_are_no_batch(diaries: list[Any]) -> None:
    with pytest.raises(SpecError, match="env 1 has other spaces than env 0"):
        make_engine("gymnasium:lucky_test/Spaces-v0", 2, differing=True)


def test_a_constructor_that_raises_is_an_engine_failure(diaries: list[Any]) -> None:
    with pytest.raises(EngineFailed, match="lucky_test/Broken-v0: RuntimeError: no wheels"):
        make_engine("gymnasium:lucky_test/Broken-v0", 1)


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
