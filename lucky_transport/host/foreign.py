"""An engine's services in another protocol's messages, from plugins (gRPC's, for generated stubs).

A call belongs here if one of the plugins knows the path of its method. The plugins are loaded at the first call that
names one: most engines never get such a call, and gRPC and Protobuf are a third of what an engine's process takes to
start. If a plugin's packages are missing, or it breaks, the engine is served without it and the log says so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from lucky_transport.errors import ClosedError, MissingExtra, TransportError, Unimplemented
from lucky_transport.foreign_code import foreign_code, run_unwaited
from lucky_transport.host.host import Host
from lucky_transport.registry import load, registry
from lucky_transport.rpc.server_call import ServerCall

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


class InstalledServices:
    """The services that the installed plugins have for a host; itself a `ForeignServices`.

    The handler of the first calls loads them, on the thread that runs it.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._loaded: list[ForeignServices] | None = None
        self._closed = False

    def handler(self, path: str) -> RawHandler | None:
        """Return the handler of the method; before they are loaded, one that refuses a method that none of them has."""
        return self._answer_first if self._loaded is None else self._find(path)

    def leave(self, caller: str) -> None:
        for services in self._loaded or ():
            run_unwaited("leave of foreign services", services.leave, caller)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for services in self._loaded or ():
            run_unwaited("close of foreign services", services.close)

    def _answer_first(self, call: ServerCall) -> bool | None:
        with self._lock:
            if self._closed:
                raise ClosedError("the engine closes")
            if self._loaded is None:
                self._loaded = _load(self._host)
        handler = self._find(call.path)
        if handler is None:
            raise unknown_method(call.name)
        return handler(call)

    def _find(self, path: str) -> RawHandler | None:
        found = (services.handler(path) for services in self._loaded or ())
        return next((handler for handler in found if handler is not None), None)


def unknown_method(name: str) -> Unimplemented:
    """Return the error of a call whose method neither the host nor a plugin knows."""
    return Unimplemented(f"the engine does not know {name}", hint="is the engine older than this client?")


def _load(host: Host) -> list[ForeignServices]:
    found: list[ForeignServices] = []
    for name, info in sorted(registry().foreign_services.items()):
        try:
            make = load(info.services, owner=f"foreign services {name!r}", extra=info.extra)
            with foreign_code(host.spec.engine, f"foreign services {name!r}"):
                found.append(make(host))
        except MissingExtra as error:
            _log.info("%s", error)
        except TransportError as error:
            _log.warning("%s; the engine is served without them", error)
    return found
