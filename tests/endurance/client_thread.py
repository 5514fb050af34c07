"""A client of this process whose engine is ended or stopped, and how its error is judged."""

from __future__ import annotations

import threading
import time
from typing import Any

from lucky_transport.errors import TransportError
from tests.endurance.workloads import work

#: Operations of a connection, where it does not go on without an end.
OPERATIONS = 3
_POLL_S = 0.002


class ClientThread:
    """Works until it fails, or is told to stop. operations: of each connection, None for one that stays.

    rounds: connections that were left, or operations of the one that stays. Each wait ends after `limit_s`.
    """

    def __init__(
        self, kind: str, endpoint: str, settings: dict[str, Any], limit_s: float, operations: int | None = OPERATIONS
    ) -> None:
        self.error: Exception | None = None
        self.rounds = 0
        self.ended_s = 0.0
        self._begun_ns = 0
        self._stops = False
        self._limit_s = limit_s
        self._arguments = kind, endpoint, settings, operations
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        kind, endpoint, settings, operations = self._arguments
        while not self._stops and self.error is None:
            done = 0
            try:
                self._begun_ns = time.monotonic_ns()
                with work(kind, endpoint, **settings) as once:
                    while not self._stops and (operations is None or done < operations):
                        self._begun_ns = time.monotonic_ns()
                        once()
                        done += 1
                        self.rounds += operations is None
                self.rounds += 1
            except Exception as error:  # it is judged by the thread that looks on
                self.ended_s = time.monotonic()
                self.error = error

    def begun_after(self, moment: int) -> float:
        """Return how many seconds after the fault the last operation began."""
        return max(0.0, (self._begun_ns - moment) / 1e9)

    def await_rounds(self, rounds: int) -> None:
        """Wait for so many rounds, or an error. Raises AssertionError."""
        until = time.monotonic() + self._limit_s
        while self.rounds < rounds and self.error is None:
            if time.monotonic() > until:
                raise AssertionError(f"the client did {self.rounds} rounds in {self._limit_s} s")
            time.sleep(_POLL_S)

    def join(self) -> None:
        """Wait for the end. Raises AssertionError for a client that hangs."""
        self._thread.join(self._limit_s)
        if self._thread.is_alive():
            raise AssertionError(f"the client hangs, {self._limit_s} s after its engine left")

    def stop(self) -> None:
        """End the work and drop what it holds."""
        self._stops = True
        self.join()
        error = self.error
        while error is not None:  # their tracebacks hold the client's objects
            error.__traceback__ = None
            error = error.__cause__ or error.__context__


def checked(error: Exception) -> str:
    """Return the error's name; raises AssertionError for one that is none of the API's, or says nothing."""
    code: Any = getattr(error, "code", None)
    status: Any = code() if callable(code) else None
    name = type(error).__name__ if status is None else f"{type(error).__name__} {status.name}"
    known = isinstance(error, TransportError) or callable(code)
    text = str(getattr(error, "details", lambda: error)() if callable(code) else error)
    if not known or not text:
        raise AssertionError(f"the client got {name}: {text!r}") from error
    return name
