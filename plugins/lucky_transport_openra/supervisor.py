"""Keeps the real engine running: started when it is needed and again when it died, given up when that is no use."""

from __future__ import annotations

import socket
import time

from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable
from lucky_transport_openra.game_process import GameProcess
from lucky_transport_openra.launch import GameLaunch

__all__ = ["Supervisor"]

#: A connection breaks a moment before its process can be waited for.
_REAPING_S = 0.1


class Supervisor:
    """Keeps an engine running: `ensure` starts it, and starts it again when it has died. restarts: how often it had to.

    An engine that failed `most_failures` times in a row, with no `note_success` in between, is given up.
    """

    def __init__(self, launch: GameLaunch, most_failures: int = 3) -> None:
        self.launch = launch
        self.restarts = -1
        self._most_failures = most_failures
        self._failures = 0
        self._process: GameProcess | None = None

    @property
    def pid(self) -> int:
        """The running process, 0 when none runs."""
        return self._process.pid if self._process is not None and self._process.is_alive else 0

    def ensure(self) -> GameProcess:
        """Return the running engine, a new one where none runs. Raises NotReachable: it cannot be started, its port is
        taken, or it failed too often.
        """
        if self._process is not None and self._process.is_alive:
            return self._process
        words = self._process.exit_report() if self._process is not None else ""
        self.stop()
        if self._failures >= self._most_failures:
            raise NotReachable(
                f"the engine failed {self._failures} times in a row, last with {words}", backend="openra"
            )
        self._failures += 1
        _check_free(self.launch.port)
        self._process = GameProcess(self.launch)
        self.restarts += 1
        return self._process

    def exit_report(self) -> str:
        """Return how the engine ended and what it wrote last; "" while it runs. It may take a moment to end."""
        deadline = Deadline(_REAPING_S)
        while self._process is not None:
            if (words := self._process.exit_report()) or deadline.expired:
                return words
            time.sleep(_REAPING_S / 10)
        return ""

    def note_success(self) -> None:
        """The engine does what it should: earlier failures are forgotten."""
        self._failures = 0

    def stop(self) -> None:
        """End the engine; idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None


def _check_free(port: int) -> None:
    """Raise NotReachable when another program listens at the port: it would be taken for the engine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotReachable(
                f"port {port} is taken: {error}", backend="openra", hint="choose another port"
            ) from error
