"""Two bare processes that take turns by two POSIX semaphores, as the two ends of Holodeck do.

A waiting side sleeps: the original does not poll first. The names are gone when the pair is closed, the other process
has ended.
"""

from __future__ import annotations

from typing import Any, Self

import posix_ipc

from lucky_transport.errors import PeerDied
from lucky_transport.process import ChildProcess, python_command, unique_name

__all__ = ["PATIENCE_S", "SemaphorePair"]

_PROGRAM = "lucky_transport_migration.bench.workloads.systems.semaphores_program"
PATIENCE_S = 10.0


class SemaphorePair:
    """A process that answers every turn with one, and this one's end; `pid` is the other's. Raises the errors of
    `step`.
    """

    def __init__(self) -> None:
        base = unique_name()
        self._semaphores = [posix_ipc.Semaphore(f"/{base}.{side}", posix_ipc.O_CREX) for side in ("server", "client")]
        self._server, self._client = self._semaphores
        names = [one.name for one in self._semaphores]
        self._process = ChildProcess("semaphores", python_command(_PROGRAM, *names))
        self.pid = self._process.pid
        self.step(None)  # it has started

    def step(self, actions: Any) -> None:
        """Give a turn and have it back; `actions` are not used. Raises PeerDied without an answer."""
        self._server.release()
        try:
            self._client.acquire(PATIENCE_S)
        except posix_ipc.BusyError as error:
            raise PeerDied(
                f"no turn came back within {PATIENCE_S:g} s {self._process.exit_report()}", backend="bench"
            ) from error

    def close(self) -> None:
        """End the other process and leave nothing behind."""
        self._process.stop()
        for one in self._semaphores:
            one.unlink()
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
