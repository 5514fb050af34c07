"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import FrameworkInfo, hookimpl


@hookimpl
def lucky_transport_frameworks() -> list[FrameworkInfo]:
    return [
        FrameworkInfo("sb3", "SameStep", "lucky_transport_frameworks.sb3.LuckyVecEnv(env)"),
        FrameworkInfo("rsl_rl", "SameStep", "lucky_transport_frameworks.rsl_rl.LuckyVecEnv(env)"),
        FrameworkInfo("torchrl", "Disabled", "torchrl.envs.GymWrapper(env)"),
        FrameworkInfo("skrl", "NextStep", "skrl.envs.wrappers.torch.wrap_env(env)"),
        FrameworkInfo(
            "lerobot", "SameStep", "lucky_transport_frameworks.lerobot.LuckyLeRobotEnv(env)", keeps_observations=False
        ),
        FrameworkInfo("rllib", "NextStep", "lucky_transport_frameworks.rllib.configured(PPOConfig(), engine)"),
        FrameworkInfo(
            "cleanrl", "NextStep", "gymnasium.wrappers.vector.RecordEpisodeStatistics(env)", keeps_observations=False
        ),
    ]
