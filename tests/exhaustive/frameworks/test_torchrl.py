"""TorchRL: its `GymWrapper` takes the env as it is, in the two autoreset modes that TorchRL has."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api

MODES = ["SameStep", "Disabled"]

#: Engines of every kind of spec, and options that end episodes within a short rollout.
ENGINES: dict[str, dict[str, Any]] = {
    "toy": {"episode_steps": 5},
    "skirmish:plains": {},
    "gymnasium:CartPole-v1": {},
    "cartpole": {},
    "mujoco:quadruped": {},
}


@pytest.fixture
def envs() -> Any:
    """The package `torchrl.envs`."""
    pytest.importorskip("torchrl", reason="torchrl is not installed: pip install torchrl")
    return pytest.importorskip("torchrl.envs")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_specs_of_every_engine_hold(envs: Any, torch: Any, engine: str, mode: str) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    with api.make(engine, 4, transport="inproc", autoreset_mode=mode, options=ENGINES[engine]) as env:
        wrapped = envs.GymWrapper(env)
        envs.check_env_specs(wrapped)
        data = wrapped.rollout(30, break_when_any_done=False)
        assert data.shape == (4, 30)
        assert torch.isfinite(data["next", "reward"]).all()


def _plain(actions: NDArray[Any], steps: int, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what `actions`, the same in each step, led to in an env without TorchRL: observations before any reset,
    rewards and ends, (num_envs, steps, ...).
    """
    rows: list[tuple[Any, Any, Any]] = []
    with api.make("toy", 4, transport="inproc", autoreset_mode="Disabled", options={"episode_steps": 9}) as env:
        env.reset(seed=seed)
        for _ in range(steps):
            observations, rewards, terminated, truncated, _ = env.step(actions)
            ended = terminated | truncated
            rows.append((observations, rewards, ended))
            if ended.any():
                env.reset(options={"reset_mask": ended})
    observations, rewards, ended = (np.stack(column, 1) for column in zip(*rows, strict=True))
    return observations, rewards, ended


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_shows_the_last_observation_of_each_episode(make: Any, envs: Any, torch: Any, mode: str) -> None:
    """Each env is pushed another way, so that they do not end together: then TorchRL resets once more, in SameStep."""
    actions = np.repeat(np.array([[1], [0.7], [-0.8], [0.2]], np.float32), 2, 1)
    wrapped = envs.GymWrapper(make("toy", 4, autoreset_mode=mode, options={"episode_steps": 9}))
    data = wrapped.rollout(
        40,
        lambda observation, *_: torch.from_numpy(actions),
        auto_reset=False,
        tensordict=wrapped.reset(seed=7),
        break_when_any_done=False,
    )
    observations, rewards, ended = _plain(actions, 40, 7)
    assert ended.any(axis=1).all()
    assert not ended.all(axis=0).any()
    assert data["next", "observation"].numpy().tobytes() == observations.tobytes()
    assert data["next", "reward"].numpy()[..., 0].tobytes() == rewards.tobytes()
    assert data["next", "done"].numpy()[..., 0].tolist() == ended.tolist()


def test_the_terms_of_the_reward_are_in_the_data(make: Any, envs: Any, torch: Any) -> None:
    data = envs.GymWrapper(make("toy", 4, autoreset_mode="SameStep", options=ENGINES["toy"])).rollout(
        12, break_when_any_done=False
    )
    terms = data["next", "reward_terms/alive"] + data["next", "reward_terms/centred"]
    assert torch.equal(terms, data["next", "reward"][..., 0])
    assert data["next", "termination_terms/time_out"].sum() == 8


@pytest.mark.parametrize("mode", MODES)
def test_ppo_learns_from_a_collector(make: Any, envs: Any, torch: Any, mode: str) -> None:
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    env = envs.GymWrapper(make("toy", 4, autoreset_mode=mode, options=ENGINES["toy"]))
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
    loss_of, advantage = ClipPPOLoss(actor, critic), GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    optimizer = torch.optim.Adam(loss_of.parameters(), 1e-3)
    before = [one.detach().clone() for one in loss_of.parameters()]
    seen = 0
    collector = Collector(env, actor, frames_per_batch=160, total_frames=480)
    for batch in collector:
        advantage(batch)
        losses = loss_of(batch)
        loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss)
        seen += batch.numel()
    collector.shutdown()
    assert seen == 480
    assert any(not torch.equal(old, new) for old, new in zip(before, loss_of.parameters(), strict=True))
