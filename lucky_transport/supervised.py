"""Sessions in an engine process that is started when it is needed, and started again when it dies.

    with SupervisedSessions("cartpole") as supervised:
        session = supervised.sessions.create(seed=1)
        supervised.sessions.advance(session)          # PeerDied, with the exit report, when the engine died
        session = supervised.sessions.create(seed=1)  # in a new engine

The sessions of an engine end with it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lucky_transport.api import open_transport
from lucky_transport.closing import Closing
from lucky_transport.config import load_settings
from lucky_transport.errors import ClosedError, ConfigError, NotReachable
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.registry import registry
from lucky_transport.sessions.client import SessionClient
from lucky_transport.supervisor import Supervisor
from lucky_transport.transport import Transport

__all__ = ["SupervisedSessions"]


class SupervisedSessions(Closing):
    """The sessions of one engine, in a process of its own.

    transport: the name of the transport to it. options: those of the engine. settings: fields of
    `lucky_transport.config.Settings`. most_failures: failed starts in a row before NotReachable is raised.
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
        endpoint = registry().transport(transport).local_endpoint
        if not endpoint:
            raise ConfigError(f"transport {transport!r} cannot start an engine by itself", hint="take transport='shm'")
        self._settings = load_settings(settings)

        def start() -> EngineProcess:
            return EngineProcess(
                engine,
                [endpoint.format(name=unique_name())],
                options=options,
                wait=self._settings.wait,
                max_message_bytes=self._settings.max_message_bytes,
                start_timeout_s=self._settings.start_timeout_s,
            )

        self._supervisor = Supervisor(f"engine {engine!r}", start, most_failures)
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._sessions: SessionClient | None = None
        self._closed = False

    @property
    def restarts(self) -> int:
        """How often the engine was started again, -1 before its first start."""
        return self._supervisor.restarts

    @property
    def pid(self) -> int:
        """The engine's process, 0 while none lives."""
        return self._supervisor.pid

    @property
    def sessions(self) -> SessionClient:
        """The sessions of a living engine; a new one where none lives.

        Raises NotReachable when it cannot be started, ClosedError.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("these sessions are closed", hint="make new ones")
            if self._sessions is None or not self._supervisor.pid:
                self._sessions = self._connect()
            return self._sessions

    def _connect(self) -> SessionClient:
        """Start an engine, in the place of one that died, and connect to it."""
        while True:
            self._close_transport()
            try:
                self._transport = open_transport(self._supervisor.ensure().endpoints[0], self._settings)
            except NotReachable as error:
                self._supervisor.note_failure(error)
            else:
                self._supervisor.note_success()
                return SessionClient(self._transport)

    def _close_transport(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def close(self) -> None:
        """End the sessions and the engine; idempotent."""
        with self._lock:
            self._closed = True
            self._close_transport()
            self._supervisor.stop()
