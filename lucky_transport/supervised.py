"""Sessions in an engine process that is started when it is needed, and started again when it dies.

    with SupervisedSessions("cartpole") as supervised:
        session = supervised.sessions.create(seed=1)
        supervised.sessions.advance(session)          # PeerDied, with the exit report, when the engine died
        session = supervised.sessions.create(seed=1)  # in a new engine

The sessions of an engine end with it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from lucky_transport.api import open_transport
from lucky_transport.config import load_settings
from lucky_transport.errors import ClosedError, ConfigError, NotReachable
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.registry import registry
from lucky_transport.sessions.client import SessionClient
from lucky_transport.transport import Transport

__all__ = ["SupervisedSessions"]

_log = logging.getLogger("lucky_transport")


class SupervisedSessions:
    """The sessions of one engine, in a process of its own.

    transport: the name of the transport to it. options: those of the engine. settings: fields of
    `lucky_transport.config.Settings`. most_failures: failed starts in a row before NotReachable is raised.
    restarts: how often the engine was started again.
    """

    def __init__(
        self,
        engine: str,
        *,
        transport: str = "shm",
        options: Mapping[str, Any] | None = None,
        most_failures: int = 3,
        **settings: Any,
    ) -> None:
        self.restarts = -1
        self._engine = engine
        self._local_endpoint = registry().transport(transport).local_endpoint
        if not self._local_endpoint:
            raise ConfigError(f"transport {transport!r} cannot start an engine by itself", hint="take transport='shm'")
        self._options = options
        self._settings = load_settings(settings)
        self._most_failures = most_failures
        self._lock = threading.Lock()
        self._process: EngineProcess | None = None
        self._transport: Transport | None = None
        self._sessions: SessionClient | None = None
        self._closed = False

    @property
    def sessions(self) -> SessionClient:
        """The sessions of a living engine; a new one where none lives.

        Raises NotReachable when it cannot be started, ClosedError.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("these sessions are closed", hint="make new ones")
            if self._process is None or not self._process.is_alive or self._sessions is None:
                self._sessions = self._start()
            return self._sessions

    @property
    def pid(self) -> int:
        """The engine's process, 0 while none lives."""
        process = self._process
        return process.pid if process is not None and process.is_alive else 0

    def _start(self) -> SessionClient:
        """Start an engine, in the place of one that died, and connect to it."""
        words = self._process.exit_report() if self._process is not None else ""
        self._end()
        last: NotReachable | None = None
        for _ in range(self._most_failures):
            self.restarts += 1
            if words:
                _log.warning("engine %r ended with %s; it is started again", self._engine, words)
            try:
                return self._connect()
            except NotReachable as error:
                self._end()
                last, words = error, str(error)
        raise NotReachable(
            f"engine {self._engine!r} failed {self._most_failures} times in a row, last with {words}",
            backend=self._engine,
            hint="mend it, then make new sessions",
        ) from last

    def _connect(self) -> SessionClient:
        self._process = EngineProcess(
            self._engine,
            [self._local_endpoint.format(name=unique_name())],
            options=self._options,
            wait=self._settings.wait,
            start_timeout_s=self._settings.start_timeout_s,
        )
        self._transport = open_transport(self._process.endpoints[0], self._settings)
        return SessionClient(self._transport)

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._process is not None:
            self._process.stop()
            self._process = None

    def close(self) -> None:
        """End the sessions and the engine; idempotent."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
