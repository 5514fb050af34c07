"""The client end, which is not there: an OpenEnv environment is driven by OpenEnv's own client, or by one of MCP."""

from __future__ import annotations

from typing import NoReturn

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Unimplemented

__all__ = ["connect"]


def connect(endpoint: Endpoint, settings: Settings) -> NoReturn:
    """Raise Unimplemented, with what to use instead."""
    raise Unimplemented(
        f"{endpoint} is for agents: no VectorEnv and no typed calls go there",
        backend="openenv",
        hint=f"use openenv.core.GenericEnvClient('http://{endpoint.address}'), or serve the engine at shm:// too",
    )
