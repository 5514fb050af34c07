"""Why no batch is stepped at `pipe://NAME`; sessions are played with `lucky_transport_pipe.instance.Instance`."""

from __future__ import annotations

from typing import NoReturn

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Unimplemented
from lucky_transport_pipe.address import BACKEND

__all__ = ["connect"]


def connect(endpoint: Endpoint, settings: Settings) -> NoReturn:
    """Raise Unimplemented: the protocol has no reset, so its sessions are not the envs of a batch."""
    raise Unimplemented(
        f"{endpoint}: the engine at a pipe has experiments, not a batch to step",
        backend=BACKEND,
        hint="play its experiments with lucky_transport_pipe.instance.Instance, or serve the engine at shm:// too",
    )
