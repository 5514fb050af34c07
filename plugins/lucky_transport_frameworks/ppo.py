"""PPO on the CPU in one file, for any `VectorEnv` of flat observations and continuous actions.

    with lucky_transport.make("mujoco:quadruped-walk", num_envs=64, framework="ppo", copy=False) as env:
        learner = Learner(env, seed=0)
        for _ in range(100):
            print(learner.update())

The engine and the program work at the same time: only the action is computed before it is sent; values, probabilities
and the bookkeeping of a step are done while the engine is at it (`step_async`, `step_wait`). Observations are views of
the engine's memory, and the one copy is the normalised row that is learnt from.

Equal seeds give equal numbers over every transport, on one thread of torch (`torch.set_num_threads(1)`).
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch import Tensor, nn

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What PPO is run with; the defaults learn `mujoco:quadruped-walk` in minutes.

    horizon: steps of each env between two updates. kl: the change of the policy per update that the learning rate is
    steered to.
    """

    horizon: int = 32
    epochs: int = 5
    minibatches: int = 4
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    kl: float = 0.02
    rate: float = 3e-4
    entropy: float = 1e-3
    value_weight: float = 1.0
    largest_gradient: float = 1.0
    spread: float = 0.3
    hidden: tuple[int, ...] = (128, 64)


@dataclass(frozen=True, slots=True)
class Update:
    """What one update saw and did; everything but the seconds is the same in every run of one seed.

    reward: mean over the steps of all envs. episode_return, episode_steps: means over the episodes that ended, NaN
    where none did. terms: mean of each reward term. env_s: seconds in calls of the env; rollout_s, learning_s: seconds
    in collecting steps, those in the env included, and in learning from them.
    """

    number: int
    env_steps: int
    reward: float
    episode_return: float
    episode_steps: float
    terms: dict[str, float]
    kl: float
    rate: float
    env_s: float = field(compare=False)
    rollout_s: float = field(compare=False)
    learning_s: float = field(compare=False)


def _network(sizes: tuple[int, ...], last_gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = nn.Linear(inputs, outputs)
        is_last = index == len(sizes) - 2
        nn.init.orthogonal_(linear.weight, last_gain if is_last else math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, nn.ELU()]
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """A Gaussian policy with a value function beside it, over observations normalised by what was seen so far.

    `state_dict()` holds all of it, for `torch.save`.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, observations: int, actions: int, settings: Hyperparameters | None = None) -> None:
        super().__init__()
        settings = settings or Hyperparameters()
        self.actor = _network((observations, *settings.hidden, actions), 0.01)
        self.critic = _network((observations, *settings.hidden, 1), 1.0)
        self.log_spread = nn.Parameter(torch.full((actions,), math.log(settings.spread)))
        self.register_buffer("mean", torch.zeros(observations))
        self.register_buffer("var", torch.ones(observations))
        self.register_buffer("count", torch.tensor(1e-4))

    def normalised(self, observations: Tensor) -> Tensor:
        """Return float32 (n, observations), a new tensor."""
        return ((observations - self.mean) / torch.sqrt(self.var + 1e-5)).clamp_(-8, 8)

    def note(self, rows: Tensor) -> None:
        """Let the normalisation see raw observations, (n, observations)."""
        count = float(rows.shape[0])
        delta = rows.mean(0) - self.mean
        total = self.count + count
        spread = self.var * self.count + rows.var(0, unbiased=False) * count
        self.var = (spread + delta**2 * self.count * count / total) / total
        self.mean = self.mean + delta * count / total
        self.count = total

    def value(self, normalised: Tensor) -> Tensor:
        """Return float32 (n,): the value in units of a mean reward."""
        return self.critic(normalised).squeeze(-1)

    def log_probability(self, normalised: Tensor, actions: Tensor) -> Tensor:
        """Return float32 (n,)."""
        return _log_density(self.actor(normalised), self.log_spread, actions)

    @torch.no_grad()
    def act(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Return the actions without noise, float32 (n, actions)."""
        return self.actor(self.normalised(torch.as_tensor(np.array(observations)))).numpy()


def _log_density(mean: Tensor, log_spread: Tensor, actions: Tensor) -> Tensor:
    scaled = (actions - mean) / log_spread.exp()
    return (-0.5 * scaled**2 - log_spread - 0.5 * math.log(2 * math.pi)).sum(-1)


class Learner:
    """Trains a policy on one env. policy: what was learnt so far."""

    def __init__(self, env: VectorEnv, seed: int = 0, settings: Hyperparameters | None = None) -> None:
        """Seeds the env and torch, and resets the env, which must be in SameStep (`make(framework="ppo")`).

        Raises ConfigError for an env whose mode or spaces do not fit.
        """
        self.settings = settings or Hyperparameters()
        spec = env.batch_spec
        _check(env)
        torch.manual_seed(seed)
        self._env = env
        self.policy = ActorCritic(spec.observation.size, spec.action.size, self.settings)
        self._optimizer = torch.optim.Adam(self.policy.parameters(), self.settings.rate, eps=1e-5)
        self._rate = self.settings.rate
        shape = (self.settings.horizon, env.num_envs)
        self._raw = torch.zeros(*shape, spec.observation.size)
        self._observations = torch.zeros_like(self._raw)
        self._actions = torch.zeros(*shape, spec.action.size)
        self._rewards, self._values, self._log_probabilities = (torch.zeros(shape) for _ in range(3))
        self._ended = torch.zeros(shape)
        self._terms = [f"reward_terms/{name}" for name in spec.reward_terms]
        self._returns, self._lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
        self._number = 0
        self._observation, _ = env.reset(seed=seed)

    def update(self) -> Update:
        """Collect `horizon` steps of every env and learn from them; raises what stepping raises."""
        start = time.perf_counter()
        seen = self._collect()
        collected = time.perf_counter()
        kl = self._learn()
        self._number += 1
        return Update(
            number=self._number,
            env_steps=self._number * self._raw.shape[0] * self._raw.shape[1],
            kl=kl,
            rate=self._rate,
            rollout_s=collected - start,
            learning_s=time.perf_counter() - collected,
            **seen,
        )

    @torch.no_grad()
    def _collect(self) -> dict[str, Any]:
        env, policy, clock = self._env, self.policy, time.perf_counter
        spread = policy.log_spread.exp()
        noise = torch.randn(self._actions.shape)
        terms = dict.fromkeys(self._terms, 0.0)
        finished: list[tuple[float, int]] = []
        env_s = 0.0
        for step in range(self.settings.horizon):
            self._raw.numpy()[step] = self._observation  # a copy: the view is about to change
            row = self._observations[step] = policy.normalised(self._raw[step])
            mean = policy.actor(row)
            actions = mean + spread * noise[step]
            sent = clock()
            env.step_async(actions.numpy())
            under_way = clock()
            self._actions[step] = actions
            self._log_probabilities[step] = _log_density(mean, policy.log_spread, actions)
            self._values[step] = policy.value(row)
            waiting = clock()
            self._observation, rewards, terminated, truncated, info = env.step_wait()
            env_s += (under_way - sent) + (clock() - waiting)
            for name in self._terms:
                terms[name] += float(info[name].mean())
            self._returns += rewards
            self._lengths += 1
            self._rewards[step] = torch.from_numpy(rewards)
            ended = terminated | truncated
            self._ended[step] = torch.from_numpy(ended)
            if ended.any():
                finished += zip(self._returns[ended].tolist(), self._lengths[ended].tolist(), strict=True)
                self._returns[ended], self._lengths[ended] = 0, 0
                self._bootstrap(step, truncated & ~terminated, info)
        horizon = self.settings.horizon
        returns, lengths = zip(*finished, strict=True) if finished else ((math.nan,), (math.nan,))
        return {
            "reward": float(sum(terms.values()) / horizon),
            "terms": {name.partition("/")[2]: total / horizon for name, total in terms.items()},
            "episode_return": float(np.mean(returns)),
            "episode_steps": float(np.mean(lengths)),
            "env_s": env_s,
        }

    def _bootstrap(self, step: int, cut: NDArray[np.bool_], info: dict[str, Any]) -> None:
        """An episode that only its time limit cut goes on in the value of its last observation."""
        if cut.any():
            last = self.policy.normalised(torch.from_numpy(info["final_obs"][cut]))
            value = self.policy.value(last) * self.settings.discount / (1 - self.settings.discount)
            self._rewards[step, torch.from_numpy(cut)] += value

    @torch.no_grad()
    def _advantages(self) -> tuple[Tensor, Tensor]:
        """Return advantages and returns, float32 (horizon, num_envs), in units of a mean reward."""
        settings = self.settings
        rewards = self._rewards * (1 - settings.discount)
        following = self.policy.value(self.policy.normalised(torch.from_numpy(np.array(self._observation))))
        advantages = torch.zeros_like(rewards)
        running = torch.zeros_like(following)
        for step in reversed(range(settings.horizon)):
            going_on = 1 - self._ended[step]
            error = rewards[step] + settings.discount * following * going_on - self._values[step]
            advantages[step] = running = error + settings.discount * settings.trace * going_on * running
            following = self._values[step]
        return advantages, advantages + self._values

    def _learn(self) -> float:
        """Improve the policy; returns its Kullback-Leibler divergence from the one that collected."""
        settings, policy = self.settings, self.policy
        advantages, returns = self._advantages()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        rows = [
            one.flatten(0, 1)
            for one in (self._observations, self._actions, self._log_probabilities, advantages, returns)
        ]
        divergences: list[float] = []
        for _ in range(settings.epochs):
            for batch in torch.randperm(rows[0].shape[0]).chunk(settings.minibatches):
                observations, actions, before, advantage, target = (one[batch] for one in rows)
                change = policy.log_probability(observations, actions) - before
                ratio = change.exp()
                clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                gain = torch.min(ratio * advantage, clipped * advantage).mean()
                error = (policy.value(observations) - target).pow(2).mean()
                loss = settings.value_weight * error - gain - settings.entropy * policy.log_spread.sum()
                self._optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), settings.largest_gradient)
                self._optimizer.step()
                divergences.append(float((ratio.detach() - 1 - change.detach()).mean()))
            if np.mean(divergences[-settings.minibatches :]) > 1.5 * settings.kl:
                break
        policy.note(self._raw.flatten(0, 1))
        divergence = float(np.mean(divergences[-settings.minibatches :]))
        self._steer(divergence, len(divergences))
        return divergence

    def _steer(self, divergence: float, batches: int) -> None:
        """Change the learning rate so that all epochs of an update change the policy by about `settings.kl`."""
        stopped_early = batches < self.settings.epochs * self.settings.minibatches
        if stopped_early or divergence > 1.5 * self.settings.kl:
            self._rate = max(self._rate / 1.3, 1e-5)
        elif divergence < self.settings.kl / 1.5:
            self._rate = min(self._rate * 1.3, 5e-3)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate


def _check(env: VectorEnv) -> None:
    if env.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise ConfigError(
            f"PPO needs autoreset_mode SAME_STEP, the env has {env.autoreset_mode.name}", hint="make(framework='ppo')"
        )
    spec = env.batch_spec
    for what, array, parts in (
        ("observation", spec.observation, spec.observation_parts),
        ("action", spec.action, spec.action_parts),
    ):
        if parts or array.dtype != "float32" or len(array.shape) != 1:
            raise ConfigError(
                f"PPO needs a flat float32 {what}, engine {spec.engine!r} has {array.dtype} {array.shape}",
                hint="take an engine such as mujoco:quadruped-walk",
            )


def evaluate(policy: ActorCritic | None, env: VectorEnv, seed: int, steps: int) -> float:
    """Return the mean reward of a step over `steps` steps of every env, without noise; None stands still."""
    observation, _ = env.reset(seed=seed)
    still = np.zeros(env.batch_spec.action_shape, np.float32)
    total = 0.0
    for _ in range(steps):
        observation, rewards, *_ = env.step(still if policy is None else policy.act(observation))
        total += float(rewards.mean())
    return total / steps
