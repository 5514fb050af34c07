"""The engine end of a transport (`Server`), and one engine at one or several endpoints of this process (`Serving`)."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from lucky_transport import control
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.host.host import Host
from lucky_transport.interceptors import Interceptor
from lucky_transport.interceptors.engine_side import EngineInterceptors
from lucky_transport.limits import within_limits

__all__ = ["Server", "Serving"]


class Server(ABC):
    """The engine end of a transport: lets clients at one endpoint drive a host."""

    @abstractmethod
    def start(self, host: Host) -> Endpoint:
        """Accept clients from now on and return the endpoint they connect to (the real port, the real name).

        A start that fails leaves nothing behind: it can be tried again at once, here or in another process.
        """

    @abstractmethod
    def stop(self, grace_s: float = 1.0) -> None:
        """Tell clients that the engine closes, end within about `grace_s` and leave nothing behind; idempotent."""


class Serving:
    """A running host with its servers; `endpoints` are where clients connect. Use as a context manager, or `stop`.

    Servers start in the given order and stop in the reverse one, then the engine; a failed start stops the others.
    """

    def __init__(
        self,
        engine: Engine,
        servers: Sequence[Server],
        interceptors: Sequence[Interceptor] = (),
        *,
        services: Sequence[str] = (),
        without: Sequence[str] = (),
        fps: Mapping[str, float] | None = None,
    ) -> None:
        """interceptors: stand around all that clients ask of the engine, the first one outermost.

        services, without, fps: see `ServiceSwitch.choose`.
        """
        self.endpoints: list[Endpoint] = []
        self._servers: list[Server] = []
        self._lock = threading.Lock()
        self._grace_s = 0.0
        with contextlib.ExitStack() as undo:
            undo.callback(run_unwaited, "close of an engine that cannot be served", engine.close)
            self.host = Host(engine)
            undo.pop_all()
            undo.callback(self.host.close)
            self.host.switch.choose(services, without, fps or {})
            if interceptors:
                self.host.intercept(EngineInterceptors(interceptors, engine.spec))
            for server in servers:
                with within_limits(f"{self.host.spec.engine!r} cannot be served"):
                    self.endpoints.append(server.start(self.host))
                self._servers.append(server)
                undo.callback(self._stop_last)
            if elsewhere := [str(one) for one in self.endpoints if one.scheme != "inproc"]:
                undo.enter_context(control.listening(self.host.switch, self.host.spec, elsewhere))
            self._undo = undo.pop_all()

    def stop(self, grace_s: float = 1.0) -> None:
        """Stop all servers, then the engine; nothing is left behind afterwards. Idempotent."""
        with self._lock:
            self._grace_s = grace_s
            self._undo.close()

    def _stop_last(self) -> None:
        self._servers.pop().stop(self._grace_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
