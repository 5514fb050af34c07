"""The engine and the clients of `fuzz_live`: processes of their own, which say how their operations ended."""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import BrokenPlugin, TransportError
from lucky_transport.shm.listener.connecting import connect_pipe
from tests.endurance.checked_engine import CheckedEngine
from tests.endurance.workloads import WrongAnswer, work

#: Kind of work (`workloads`) -> what is added to the name, of the engine that does it.
_KINDS = {"steps": "", "calls": "", "streams": "", "images": "", "sessions": "_worlds"}
_SETTINGS = dict.fromkeys(("connect_timeout_s", "step_timeout_s", "command_timeout_s"), 0.5)
#: Operations that fail one after the other until a connection is of no use any more, and most of one: each of the
#: clients has the segment's own place by turns.
_FAILURES, _OPERATIONS = 12, 200


def live_engine() -> CheckedEngine:
    """Return an engine whose answers follow from their requests."""
    return CheckedEngine(2, width=32, height=32)


def _engine(name: str) -> None:
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent = os.getppid()
    with api.serve(live_engine(), f"shm://{name}"), api.serve("cartpole", f"shm://{name}_worlds"):
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(1)


class LiveClients:
    """Threads that do every kind of work and count what comes of it, until the time is over.

    is_exact: an answer that is not right is an error; else it is counted, for its content was rewritten.
    """

    def __init__(self, name: str, seconds: float, is_exact: bool) -> None:
        self.seen: Counter[str] = Counter()
        self._name, self._is_exact = name, is_exact
        self._end = time.monotonic() + seconds
        self._faults: list[BaseException] = []
        self._lock = threading.Lock()

    def run(self) -> Counter[str]:
        """Return the counts. Raises what was no TransportError."""
        works: list[Callable[[], object]] = [partial(self._connect, kind) for kind in _KINDS]
        threads = [threading.Thread(target=self._repeat, args=(one,)) for one in (*works, self._greet)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._faults:
            raise self._faults[0]
        return self.seen

    def _repeat(self, connect: Callable[[], object]) -> None:
        while time.monotonic() < self._end and not self._faults:
            try:
                if not self.attempt("connect", connect):
                    time.sleep(0.01)
            except BaseException as error:
                self._faults.append(error)

    def attempt(self, what: str, operation: Callable[[], Any]) -> bool:
        """Count how the operation ends; True for an answer."""
        outcome = "answer"
        try:
            operation()
        except WrongAnswer:
            if self._is_exact:
                raise
            outcome = "rewritten"
        except TransportError as error:
            if isinstance(error, BrokenPlugin) and error.__cause__ is not None:  # one that the plugin did not foresee
                raise
            outcome = type(error).__name__
        with self._lock:
            self.seen[f"{what}: {outcome}"] += 1
        return outcome == "answer"

    def _connect(self, kind: str) -> None:
        """Connect, and go on until most of the operations fail: then this connection is of no use any more."""
        with work(kind, f"shm://{self._name}{_KINDS[kind]}", **_SETTINGS) as once:
            failures = 0
            for _ in range(_OPERATIONS):
                if time.monotonic() > self._end or failures >= _FAILURES:
                    return
                failures = max(0, failures - 1) if self.attempt(kind, once) else failures + 1

    def _greet(self) -> None:
        """Connect to what is no engine: everything that it says is wrong."""
        pipe = connect_pipe(f"{self._name}_false", Deadline(0.0), answer_s=0.2)
        pipe.close()
        raise AssertionError("a client connected to what is no engine")


def _main(role: str, name: str, *arguments: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    if role == "engine":
        _engine(name)
    else:
        seconds, rewritten = arguments
        print(json.dumps(LiveClients(name, float(seconds), rewritten == "words").run()))


if __name__ == "__main__":
    _main(*sys.argv[1:])
