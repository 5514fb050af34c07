"""The switch of a process and its children: what they find in their environment, and what it does where grpc is.

The launcher imports this for the environment alone: nothing here imports grpc before it is to be switched.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from lucky_transport.config import Launch, Settings, environment, load_launch, load_settings

if TYPE_CHECKING:
    from lucky_transport.call_counts import CallCounters
    from lucky_transport_stubs.run.switch import Switch


#: Holds nothing but sitecustomize.py.
BOOTSTRAP = str(Path(__file__).resolve().with_name("bootstrap"))

#: What the first activation made; when grpc is imported again, it gets the same.
_made: list[tuple[Switch, CallCounters | None]] = []


def variables(settings: Settings, launch: Launch) -> dict[str, str]:
    """Return the variables to set, PYTHONPATH among them: the bootstrap comes first in it, once."""
    path = environment().get("PYTHONPATH", "")
    others = [entry for entry in path.split(os.pathsep) if entry != BOOTSTRAP] if path else []
    return {
        "PYTHONPATH": os.pathsep.join([BOOTSTRAP, *others]),
        "LUCKY_TRANSPORT": settings.transport,
        "LUCKY_ENDPOINT": settings.endpoint,
        "LUCKY_SHM_NAME": settings.shm_name,
        "LUCKY_GRPC_MAP": settings.grpc_map,
        "LUCKY_GRPC_SERVE": settings.grpc_serve,
        "LUCKY_GRPC_SERVE_ONLY": "1" if settings.grpc_serve_only else "",
        "LUCKY_RECORD": settings.record,
        **launch.variables(),
    }


def activate(grpc: ModuleType) -> None:
    """Make the channels of `grpc`, which has just been imported, go where the settings say.

    Raises ConfigError when they cannot be read or do not say where.
    """
    from lucky_transport.call_counts import CallCounters
    from lucky_transport_stubs.run import patches
    from lucky_transport_stubs.run.notice import say
    from lucky_transport_stubs.run.switch import Switch

    if not _made:
        settings, launch = load_settings(), load_launch()
        counters = CallCounters(Path(launch.folder), say) if launch.folder else None
        _made.append((Switch(settings, quiet=launch.quiet), counters))
    patches.patch(grpc, *_made[0])
