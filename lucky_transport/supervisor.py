"""Keeps a child process running: it is started when it is needed, and started again when it has died."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from lucky_transport.errors import NotReachable
from lucky_transport.process import ChildProcess

P = TypeVar("P", bound=ChildProcess)

_log = logging.getLogger("lucky_transport")


class Supervisor(Generic[P]):
    """The process that `start` starts. restarts: how often it was started again, -1 before the first start.

    Each start counts as a failure until `note_success`. A process that failed `most_failures` times in a row is given
    up: it is not started any more.
    """

    def __init__(self, name: str, start: Callable[[], P], most_failures: int = 3) -> None:
        self.restarts = -1
        self._name = name
        self._start = start
        self._most_failures = most_failures
        self._failures = 0
        self._process: P | None = None

    @property
    def pid(self) -> int:
        """The running process, 0 when none runs."""
        process = self._process
        return process.pid if process is not None and process.is_alive else 0

    def ensure(self) -> P:
        """Return the running process, a new one where none runs. Raises NotReachable when it is given up, and what
        `start` raises.
        """
        if self._process is not None and self._process.is_alive:
            return self._process
        words = self._process.exit_report() if self._process is not None else ""
        self.stop()
        self._check_failures(words)
        if words:
            _log.warning("%s ended with %s; it is started again", self._name, words)
        self._failures += 1
        self.restarts += 1
        self._process = self._start()
        return self._process

    def note_success(self) -> None:
        """The process does what it should: earlier failures are forgotten."""
        self._failures = 0

    def note_failure(self, error: NotReachable) -> None:
        """End a process that cannot be used. Raises NotReachable when it is given up."""
        self.stop()
        self._check_failures(str(error))
        _log.warning("%s failed: %s; it is started again", self._name, error)

    def _check_failures(self, words: str) -> None:
        if self._failures >= self._most_failures:
            raise NotReachable(
                f"{self._name} failed {self._failures} times in a row, last with {words}",
                backend=self._name,
                hint="mend it, then start anew",
            )

    def exit_report(self) -> str:
        """Return how the process ended and what it wrote last; "" while it runs. It may take a moment to end."""
        return "" if self._process is None else self._process.exit_report()

    def stop(self) -> None:
        """End the process; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()
