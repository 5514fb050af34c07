"""luckyrobots 0.5.0: the health check that never succeeds.

Its `health_check` uses the stub `_mujoco`, which is made when `client.mujoco` is first used; luckyrobots never does. So
`wait_for_server` always waits its whole time and `Session.connect` always fails, over gRPC as over shared memory.

Only the version with the defect is touched, only this method, and the user is told.
"""

from __future__ import annotations

import functools
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lucky_transport_stubs.run.notice import say

__all__ = ["patch_luckyrobots"]

_AFFECTED = ("0.5.0",)


def patch_luckyrobots() -> None:
    """Make health checks of luckyrobots clients succeed when the engine answers; asked whenever a channel is made.

    A health check needs a channel, so luckyrobots is patched in time, imported before or after grpc.
    """
    client = getattr(sys.modules.get("luckyrobots.client"), "LuckyEngineClient", None)
    if client is None or hasattr(client.health_check, "__wrapped__") or _version() not in _AFFECTED:
        return
    client.health_check = _cured(client.health_check)
    say(f"luckyrobots {_version()}: its health check is cured (it used client.mujoco before it was made)")


def _version() -> str:
    try:
        return version("luckyrobots")
    except PackageNotFoundError:  # a checkout on PYTHONPATH: its version is unknown
        return ""


def _cured(health_check: Any) -> Any:
    @functools.wraps(health_check)
    def check(self: Any, timeout: float | None = None) -> bool:
        return self.is_connected() and self.mujoco is not None and health_check(self, timeout)

    return check
