"""rsl_rl, the library of Isaac Lab and legged_gym: our env as its `VecEnv`.

env = LuckyVecEnv(lucky_transport.make("mujoco:quadruped-walk", num_envs=64, framework="rsl_rl"))
OnPolicyRunner(env, config, log_dir=None, device="cpu").learn(100)

The config is rsl_rl's own; `docs/examples/train_rsl_rl.py` has a short one of rsl_rl 5.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError
from lucky_transport_frameworks.modes import check_made_for


class LuckyVecEnv(VecEnv):
    """Steps `env`, the wrapped env, on the CPU, and hands out tensors on `device`.

    Observations are a TensorDict of groups, by default one, "policy". A step returns it with rewards float32
    (num_envs,), dones bool (num_envs,) and extras: "time_outs", bool (num_envs,), the episodes that only their time
    limit ended, "log", the mean of each reward term, and "final_observations", the groups before the resets, on steps
    that ended an episode (rows of the other envs are zero).

    `episode_length_buf` counts the steps of each episode. The runner may write other numbers into it
    (`init_at_random_ep_len`); the engine's own clock does not follow.
    """

    def __init__(
        self,
        env: VectorEnv,
        *,
        device: str = "cpu",
        groups: Mapping[str, Sequence[str]] | None = None,
        seed: int | None = None,
        cfg: Any = None,
    ) -> None:
        """Take over `env` and reset it with `seed`.

        `groups`: name of a group -> names of the observation terms in it (`env.batch_spec.observation_terms`); None:
        all of them are "policy". Raises ConfigError unless the env was made with `framework="rsl_rl"`, SpecError for
        an unknown term.
        """
        check_made_for("rsl_rl", env)
        spec = env.batch_spec
        self.env = env
        self.num_envs = env.num_envs
        self.num_actions = spec.action.size
        self.device = device
        self.cfg: Any = {} if cfg is None else cfg
        self.max_episode_length = int(spec.attributes.get("max_episode_steps", 0))
        self.episode_length_buf = torch.zeros(env.num_envs, dtype=torch.long, device=device)
        self._columns = _columns(spec.observation_terms, groups)
        self._terms = [f"reward_terms/{name}" for name in spec.reward_terms]
        self._observations = self._grouped(env.reset(seed=seed)[0])

    def _grouped(self, observations: Any) -> TensorDict:
        rows = torch.as_tensor(observations, device=self.device)
        groups = {name: rows if columns is None else rows[:, columns] for name, columns in self._columns.items()}
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    def get_observations(self) -> TensorDict:
        return self._observations

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[TensorDict, dict[str, Any]]:
        """Start a new episode in every env; returns the observations and {}."""
        self._observations = self._grouped(self.env.reset(seed=seed, options=options)[0])
        self.episode_length_buf = torch.zeros_like(self.episode_length_buf)  # the runner's may be of inference mode
        return self._observations, {}

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        observations, rewards, terminated, truncated, info = self.env.step(actions.detach().cpu().numpy())
        ended = terminated | truncated
        done = torch.as_tensor(ended, device=self.device)
        self.episode_length_buf = torch.where(done, 0, self.episode_length_buf + 1)
        self._observations = self._grouped(observations)
        extras: dict[str, Any] = {
            "time_outs": torch.as_tensor(truncated & ~terminated, device=self.device),
            "log": {f"/{name}": float(info[name].mean()) for name in self._terms},
        }
        if ended.any():
            extras["final_observations"] = self._grouped(info["final_obs"])
        return self._observations, torch.as_tensor(rewards, device=self.device), done, extras

    def close(self) -> None:
        """Close the env."""
        self.env.close()


def _columns(
    terms: Sequence[tuple[str, int]], groups: Mapping[str, Sequence[str]] | None
) -> dict[str, list[int] | None]:
    """Return the columns of each group; None stands for all of them."""
    if groups is None:
        return {"policy": None}
    places: dict[str, range] = {}
    start = 0
    for name, size in terms:
        places[name] = range(start, start + size)
        start += size
    unknown = sorted({name for names in groups.values() for name in names} - places.keys())
    if unknown:
        raise SpecError(f"no observation terms {unknown}; there are: {', '.join(places) or 'none'}")
    return {group: [column for name in names for column in places[name]] for group, names in groups.items()}
