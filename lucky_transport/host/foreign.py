"""An engine's services in another protocol's messages, from plugins (gRPC's, for generated stubs).

A call belongs here if one of the plugins knows the path of its method. If a plugin's packages are missing, or it
breaks, the engine is served without it and the log says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from lucky_transport.errors import MissingExtra, TransportError
from lucky_transport.host.host import Host
from lucky_transport.registry import load, registry
from lucky_transport.rpc.server_call import ServerCall

__all__ = ["ForeignServices", "RawHandler", "foreign_services"]

_log = logging.getLogger("lucky_transport")

#: Answers a call with messages of another protocol: reads `call.payload` or `call.recv()`, uses `call.send` and ends
#: with `call.finish`. It runs on a thread of the pool, and returns True where another thread answers later.
RawHandler = Callable[[ServerCall], bool | None]


class ForeignServices(Protocol):
    """The services of one host from one plugin."""

    def handler(self, path: str) -> RawHandler | None:
        """Return the handler of the method "/package.Service/Method", None if it is not known; from any thread."""
        ...

    def leave(self, caller: str) -> None:
        """Release what a client that has gone held. Idempotent; also called for clients never seen."""
        ...

    def close(self) -> None:
        """End what waits for the engine and start nothing more: the engine closes. Idempotent."""
        ...


def foreign_services(host: Host) -> list[ForeignServices]:
    """Return the services that the installed plugins have for this host."""
    found: list[ForeignServices] = []
    for name, info in sorted(registry().foreign_services.items()):
        try:
            found.append(load(info.services, owner=f"foreign services {name!r}", extra=info.extra)(host))
        except MissingExtra as error:
            _log.info("%s", error)
        except TransportError as error:
            _log.warning("%s; the engine is served without them", error)
    return found
