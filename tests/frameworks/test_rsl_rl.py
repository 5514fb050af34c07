"""rsl_rl: its runner trains on a `VecEnv` that the adapter here makes of ours in SameStep."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport.env.vector_env import VectorEnv


@pytest.fixture
def rsl_rl() -> Any:
    """The package."""
    return pytest.importorskip("rsl_rl", reason="rsl_rl is not installed: pip install rsl-rl-lib")


def adapted(env: VectorEnv, torch: Any) -> Any:
    """Return an `rsl_rl.env.VecEnv` that steps `env`, which must be in SameStep."""
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class Adapter(VecEnv):
        def __init__(self) -> None:
            self.num_envs = env.num_envs
            self.num_actions = env.batch_spec.action.size
            self.max_episode_length = env.get_attr("max_episode_steps")[0]
            self.episode_length_buf = torch.zeros(env.num_envs, dtype=torch.long)
            self.device, self.cfg = "cpu", {}
            self._observations = self._group(env.reset(seed=0)[0])

        def _group(self, observations: Any) -> Any:
            return TensorDict({"policy": torch.from_numpy(observations)}, [env.num_envs])

        def get_observations(self) -> Any:
            return self._observations

        def step(self, actions: Any) -> Any:
            observations, rewards, terminated, truncated, info = env.step(actions.cpu().numpy())
            done = torch.from_numpy(terminated | truncated)
            self.episode_length_buf = torch.where(done, 0, self.episode_length_buf + 1)
            self._observations = self._group(observations)
            log = {f"/{name}": float(np.mean(info[name])) for name in info if name.startswith("reward_terms/")}
            extras = {"time_outs": torch.from_numpy(truncated & ~terminated), "log": log}
            return self._observations, torch.from_numpy(rewards), done, extras

    return Adapter()


def _configuration() -> dict[str, Any]:
    network = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    return {
        "num_steps_per_env": 20,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(network),
        "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "num_learning_epochs": 2},
    }


def test_the_runner_trains(make: Any, rsl_rl: Any, torch: Any) -> None:
    from rsl_rl.runners import OnPolicyRunner

    env = adapted(make("toy", 4, autoreset_mode="SameStep", options={"episode_steps": 7}), torch)
    runner = OnPolicyRunner(env, _configuration(), log_dir=None, device="cpu")
    before = [one.detach().clone() for one in runner.alg.get_policy().parameters()]
    runner.learn(5)
    assert any(not torch.equal(old, new) for old, new in zip(before, runner.alg.get_policy().parameters(), strict=True))
