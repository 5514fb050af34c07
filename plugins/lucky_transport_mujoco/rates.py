"""How often a stream that goes by the clock sends.

A rate is a request: 0 means the default, and the largest is `_MOST_HZ`.
"""

from __future__ import annotations

__all__ = ["rate_hz"]

_USUAL_HZ = 30
_MOST_HZ = 1000


def rate_hz(target_fps: int) -> int:
    """Return the items per second for a client that asked for `target_fps`."""
    return min(target_fps, _MOST_HZ) if target_fps > 0 else _USUAL_HZ
