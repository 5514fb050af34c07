"""The check that an env has the autoreset mode that an adapter needs."""

from __future__ import annotations

from lucky_transport.env.autoreset import parse_mode
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError
from lucky_transport.registry import registry

__all__ = ["check_made_for"]


def check_made_for(framework: str, env: VectorEnv) -> None:
    """Raise ConfigError unless the env's autoreset mode is the one that `make(framework=framework)` chooses."""
    needed = parse_mode(registry().framework(framework).autoreset_mode)
    if env.autoreset_mode is not needed:
        raise ConfigError(
            f"{framework} needs an env with autoreset_mode {needed.name}, this one has {env.autoreset_mode.name}",
            hint=f"make(..., framework={framework!r})",
        )
