"""The engine end, which is not there: a client's actors start the engines."""

from __future__ import annotations

from typing import NoReturn

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Unimplemented

__all__ = ["server"]


def server(endpoint: Endpoint, settings: Settings) -> NoReturn:
    """Raise Unimplemented, with what to do instead."""
    raise Unimplemented(
        f"{endpoint} cannot be served: a client of it starts its engines itself, in actors of the cluster",
        backend="ray",
        hint="call lucky_transport.make(endpoint='ray:?engine=toy&actors=2&num_envs=8')",
    )
