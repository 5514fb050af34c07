"""Ray RLlib's new API stack: an algorithm's config whose env runners step our vector env.

    config = configured(PPOConfig(), "mujoco:quadruped-walk", num_envs=16)
    algorithm = config.build_algo()

Each env runner starts an engine of its own; with `endpoint=` there is one engine, and so one env runner.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.errors import ConfigError


def configured(config: Any, engine: str = "", num_envs: int = 1, **settings: Any) -> Any:
    """Return `config`, an `AlgorithmConfig`, set up to step `num_envs` envs of `engine` in each env runner.

    `settings` are those of `lucky_transport.make`. RLlib must be able to pickle them. Raises ConfigError for
    `copy=False`: RLlib's episodes keep the observations.
    """
    if not settings.get("copy", True):
        raise ConfigError(
            "rllib keeps observations beyond the next step, which would write over them", hint="drop copy=False"
        )
    arguments = {"engine": engine, **settings}
    return config.environment("lucky_transport:lucky_transport/Env", env_config=arguments).env_runners(
        num_envs_per_env_runner=num_envs, gym_env_vectorize_mode="vector_entry_point"
    )
