"""Switches this process: reads the settings and patches grpc.

Imported only when grpc has been: a process that never uses gRPC pays nothing.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from lucky_transport.config import load_launch, load_settings
from lucky_transport_stubs.run import patches
from lucky_transport_stubs.run.call_counters import CallCounters
from lucky_transport_stubs.run.switch import Switch

__all__ = ["activate"]

#: What the first activation made; when grpc is imported again, it gets the same.
_made: list[tuple[Switch, CallCounters | None]] = []


def activate(grpc: ModuleType) -> None:
    """Make the channels of `grpc`, which has just been imported, go where the settings say.

    Raises ConfigError when they cannot be read or do not say where.
    """
    if not _made:
        settings, launch = load_settings(), load_launch()
        counters = CallCounters(Path(launch.folder)) if launch.folder else None
        _made.append((Switch(settings, quiet=launch.quiet), counters))
    patches.patch(grpc, *_made[0])
