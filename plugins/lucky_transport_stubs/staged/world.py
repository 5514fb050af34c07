"""Whether the world may have changed between two answers: then they may differ, and nobody is to blame.

Rule 1: only calls of this process are seen. What an engine does by itself, or for others, is not.
"""

from __future__ import annotations

from lucky_transport.messages.methods import BY_NAME, Effect

__all__ = ["World", "may_change_world"]


def may_change_world(method: str) -> bool:
    """True unless a method, given by its full name, is known to change nothing."""
    row = BY_NAME.get(method)
    return row is None or row.effect is not Effect.READ


class World:
    """The world behind one target. changes: another number after each begin and end of a call that changes it."""

    def __init__(self) -> None:
        self.changes = 0

    def touch(self) -> None:
        """A call that may change it begins, or has ended."""
        self.changes += 1
