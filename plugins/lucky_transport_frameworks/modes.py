"""The check that an env was made as an adapter needs it."""

from __future__ import annotations

from lucky_transport.env.autoreset import parse_mode
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError
from lucky_transport.registry import registry


def check_made_for(framework: str, env: VectorEnv) -> None:
    """Raise ConfigError unless `make(framework=framework)` makes such an env: by its autoreset mode, and its copies."""
    info = registry().framework(framework)
    needed = parse_mode(info.autoreset_mode)
    if env.autoreset_mode is not needed:
        raise ConfigError(
            f"{framework} needs an env with autoreset_mode {needed.name}, this one has {env.autoreset_mode.name}",
            hint=f"make(..., framework={framework!r})",
        )
    if info.keeps_observations and not env.copy:
        raise ConfigError(
            f"{framework} keeps an observation beyond the next step, which would write over it",
            hint=f"make(..., framework={framework!r}) without copy=False",
        )
