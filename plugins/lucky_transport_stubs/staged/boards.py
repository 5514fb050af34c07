"""Which board decides: the first that a plugin offers.

Imports nothing heavy: the launcher asks this before it runs a program.
"""

from __future__ import annotations

from lucky_transport.errors import ConfigError
from lucky_transport.hookspecs import PolicyPlugin
from lucky_transport.registry import load, registry
from lucky_transport.routing_policy import RoutingPolicy

__all__ = ["board_on_offer", "open_board"]


def board_on_offer() -> PolicyPlugin:
    """Return the board that would decide. Raises ConfigError when there is none, so that nothing could be staged."""
    info = next(iter(registry().policies.values()), None)
    if info is None:
        raise ConfigError(
            "transport = 'staged', and no plugin offers a board that decides",
            hint="install lucky-transport with its migration kit, or take one of the transports shm, auto, grpc",
        )
    return info


def open_board() -> RoutingPolicy:
    """Return the board, opened. Raises the errors of `board_on_offer`, MissingExtra, BrokenPlugin, and what its opening
    raises.
    """
    info = board_on_offer()
    return load(info.open, owner=f"board {info.name!r}", extra=info.extra)()
