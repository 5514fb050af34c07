"""The real engine's process: its start, its health, its end.

It is ended as the original's own manager ends it: asked, and after five seconds killed. What it wrote last is part of
every error about it.
"""

from __future__ import annotations

import socket
import time

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, PeerTimeout
from lucky_transport.process import ChildProcess
from lucky_transport_openra.launch import GameLaunch

__all__ = ["GameProcess"]

_LOOK_S = 0.05


class GameProcess(ChildProcess):
    """A running engine; `await_serving` returns once its bridge accepts connections. Raises NotReachable."""

    def __init__(self, launch: GameLaunch) -> None:
        super().__init__("openra", launch.command_line(), environ=launch.environ(), cwd=launch.openra_path)
        self._port = launch.port

    def await_serving(self, deadline: Deadline) -> None:
        """Return once the bridge accepts connections. Raises PeerDied with its last words, PeerTimeout."""
        while not self._accepts():
            if not self.is_alive:
                raise PeerDied(f"the engine ended before it served: {self.exit_report()}", backend="openra")
            if deadline.expired:
                raise PeerTimeout(
                    f"the engine did not serve port {self._port} within {deadline.timeout_s:g} s{self.stderr_tail()}",
                    backend="openra",
                    hint="raise start_timeout_s (LUCKY_START_TIMEOUT_S)",
                )
            time.sleep(min(_LOOK_S, deadline.remaining_s))

    def await_end(self, deadline: Deadline) -> None:
        """Return once it has ended by itself. Raises PeerDied when it failed, PeerTimeout."""
        while self.is_alive:
            if deadline.expired:
                raise PeerTimeout(
                    f"the engine did not end within {deadline.timeout_s:g} s",
                    backend="openra",
                    hint="raise the timeout",
                )
            time.sleep(min(_LOOK_S, deadline.remaining_s))
        if self._process.returncode:
            raise PeerDied(f"the engine failed: {self.exit_report()}", backend="openra")

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1.0).close()
        except OSError:
            return False
        return True
