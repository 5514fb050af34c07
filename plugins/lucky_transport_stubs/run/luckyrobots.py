"""A cure for luckyrobots, whose health check of one version fails over every transport."""

from __future__ import annotations

import functools
import sys
from typing import Any

from lucky_transport_stubs.run.notice import say

#: Versions whose `health_check` uses the stub `_mujoco`, which is made when `client.mujoco` is first used:
#: luckyrobots never does, so `wait_for_server` waits its whole time and `Session.connect` fails, over gRPC too.
_AFFECTED = ("0.5.0",)


def patch_luckyrobots() -> None:
    """Make health checks of luckyrobots clients succeed when the engine answers; asked whenever a channel is made.

    A health check needs a channel, so luckyrobots is patched in time, imported before or after grpc.
    """
    client = getattr(sys.modules.get("luckyrobots.client"), "LuckyEngineClient", None)
    if client is None or hasattr(client.health_check, "__wrapped__") or _version() not in _AFFECTED:
        return
    client.health_check = _repaired(client.health_check)
    say(f"luckyrobots {_version()}: its health check is cured (it used client.mujoco before it was made)")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # many modules, for programs with luckyrobots alone

    try:
        return version("luckyrobots")
    except PackageNotFoundError:  # a checkout on PYTHONPATH: its version is unknown
        return ""


def _repaired(health_check: Any) -> Any:
    @functools.wraps(health_check)
    def check(self: Any, timeout: float | None = None) -> bool:
        return self.is_connected() and self.mujoco is not None and health_check(self, timeout)

    return check
