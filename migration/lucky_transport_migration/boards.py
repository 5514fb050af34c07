"""The switchboard of this process: its stages and evidence, and a recording where the settings ask for one."""

from __future__ import annotations

from lucky_transport.routing_policy import RoutingPolicy
from lucky_transport_migration.recording.board import recorded
from lucky_transport_migration.rollout import board

__all__ = ["open_board"]


def open_board() -> RoutingPolicy:
    """Return the board; raises ConfigError for settings that cannot be read."""
    return recorded(board.open_board())
