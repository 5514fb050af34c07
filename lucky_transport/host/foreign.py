"""An engine's services in another protocol's messages, brought by plugins (gRPC's, for generated stubs).

Rule 1: a call belongs here when it names its method by a path that one of them knows; they are asked in turn.
Rule 2: where a plugin's packages are missing, or it breaks, the engine is served without it, and the log says so.
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

#: Answers a call whose messages this project does not know: takes `call.payload` or `call.recv()`, uses `call.send` and
#: in the end `call.finish`. It runs on a thread of the pool.
RawHandler = Callable[[ServerCall], None]


class ForeignServices(Protocol):
    """What one plugin serves of one host."""

    def handler(self, path: str) -> RawHandler | None:
        """Return what answers the method "/package.Service/Method", None where it is not known; from any thread."""
        ...

    def leave(self, caller: str) -> None:
        """The client of that name has gone: let go of what it held. Idempotent, and also for clients never seen."""
        ...

    def close(self) -> None:
        """The engine closes: end what waits for it, and start nothing more. Idempotent."""
        ...


def foreign_services(host: Host) -> list[ForeignServices]:
    """Return what the installed plugins serve of this host."""
    found: list[ForeignServices] = []
    for name, info in sorted(registry().foreign_services.items()):
        try:
            found.append(load(info.services, owner=f"foreign services {name!r}", extra=info.extra)(host))
        except MissingExtra as error:
            _log.info("%s", error)
        except TransportError as error:
            _log.warning("%s; the engine is served without them", error)
    return found
