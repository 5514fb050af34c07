"""What a program has to find in its environment to be switched, with all its children."""

from __future__ import annotations

import os
from pathlib import Path

from lucky_transport.config import Launch, Settings, environment

__all__ = ["BOOTSTRAP", "variables"]

#: Holds nothing but sitecustomize.py.
BOOTSTRAP = str(Path(__file__).resolve().with_name("bootstrap"))


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
        **launch.variables(),
    }
