"""The small PPO: it learns, one seed gives one curve over every transport, and the page of a training."""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError


@pytest.fixture
def ppo(torch: Any) -> Any:
    """The module."""
    from lucky_transport_frameworks import ppo

    return ppo


def points(**settings: Any) -> Any:
    options = {"episode_steps": 20}
    return api.make(
        "toy", 8, **{"transport": "inproc", "framework": "ppo", "copy": False, "options": options, **settings}
    )


def test_it_learns_to_hold_a_point_in_the_middle(ppo: Any) -> None:
    settings = ppo.Hyperparameters(hidden=(32,), discount=0.9, spread=1.0, kl=0.05)
    with points() as env, points() as judged:
        learner = ppo.Learner(env, 0, settings)
        before = ppo.evaluate(learner.policy, judged, 5, 40)
        updates = [learner.update() for _ in range(25)]
        after = ppo.evaluate(learner.policy, judged, 5, 40)
    assert [update.env_steps for update in updates[:3]] == [256, 512, 768]
    assert after > before + 0.04
    assert np.mean([update.reward for update in updates[-5:]]) > np.mean([update.reward for update in updates[:5]])


def test_an_update_tells_rewards_episodes_and_terms(ppo: Any) -> None:
    with points() as env:
        update = ppo.Learner(env, 0, ppo.Hyperparameters(horizon=40)).update()
    assert update.episode_steps <= 20
    assert update.episode_return / update.episode_steps == pytest.approx(update.reward, rel=0.1)
    assert sum(update.terms.values()) == pytest.approx(update.reward, rel=1e-4)
    assert 0 < update.env_s < update.rollout_s


def test_the_value_goes_on_where_only_time_cut_an_episode(ppo: Any, torch: Any) -> None:
    """A constant reward is worth as much with short episodes as with long ones, if they end by their time limit."""
    settings = ppo.Hyperparameters(discount=0.9, spread=0.01)
    with points() as env:
        learner = ppo.Learner(env, 0, settings)
        with torch.no_grad():
            for layer in learner.policy.critic:
                for parameter in layer.parameters():
                    parameter.zero_()
            learner.policy.critic[-1].bias.fill_(1.0)  # one mean reward, everywhere
        learner._collect()
        rewards = learner._rewards
    assert float((rewards[19] - rewards[18]).median()) == pytest.approx(0.9 / (1 - 0.9), abs=0.2)


def test_the_engine_steps_while_values_are_computed(ppo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    with points() as env:
        learner = ppo.Learner(env, 0, ppo.Hyperparameters(horizon=2))
        for owner, name in ((env, "step_async"), (env, "step_wait"), (learner.policy, "value")):
            plain = getattr(owner, name)
            monkeypatch.setattr(owner, name, lambda *a, n=name, f=plain, **k: (calls.append(n), f(*a, **k))[1])
        learner.update()
    assert calls[:6] == ["step_async", "value", "step_wait"] * 2


@pytest.mark.parametrize(
    ("engine", "settings", "text"),
    [
        (
            "toy",
            {"framework": "skrl"},
            r"needs autoreset_mode SAME_STEP, the env has NEXT_STEP; make\(framework='ppo'\)",
        ),
        ("toy:composite", {}, "needs a flat float32 observation"),
        ("gymnasium:CartPole-v1", {}, "needs a flat float32 action, engine 'gymnasium:CartPole-v1' has int64"),
    ],
)
def test_an_env_that_does_not_fit_is_refused(ppo: Any, engine: str, settings: dict[str, Any], text: str) -> None:
    settings = {"framework": "ppo", **settings}
    with api.make(engine, 2, transport="inproc", **settings) as env, pytest.raises(ConfigError, match=text):
        ppo.Learner(env)


def test_a_training_gives_equal_curves_over_all_transports_and_writes_a_page(torch: Any, tmp_path: Path) -> None:
    for package in ("mujoco", "grpc", "matplotlib"):
        pytest.importorskip(package)
    from click.testing import CliRunner

    from lucky_transport.cli.main import cli

    arguments = [
        "--num-envs",
        "4",
        "--updates",
        "3",
        "--compare-updates",
        "2",
        "--evaluate-steps",
        "20",
        "--report",
        str(tmp_path),
    ]
    done = CliRunner().invoke(cli, ["train", *arguments])
    assert done.exit_code == 0, done.output
    assert "EQUAL: the first 2 updates over grpc, shm, inproc give the same numbers, bit for bit." in done.output
    result = json.loads((tmp_path / "training.json").read_text())
    assert [one["transport"] for one in result["comparison"]] == ["grpc", "shm", "inproc"]
    first = [row["reward"] for row in result["rows"][:2]]
    assert all(one["rewards"] == first for one in result["comparison"])
    assert len(set(first)) == 2
    page = (tmp_path / "training.html").read_text()
    assert page.count('src="data:image/jpeg') == 8
    assert "<script" not in page
    assert "policy.pt" in {path.name for path in tmp_path.iterdir()}
