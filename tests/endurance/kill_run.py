"""A run of kills: clients and engines are processes, and one of both is killed at a random moment (`kills`)."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from tests.endurance.checked_engine import CheckedEngine
from tests.endurance.leaks import allowed_engine, settled
from tests.endurance.workloads import ENGINE, engine_of, load
from tests.support.resources import measure, released

__all__ = ["LIMIT_S", "KillReport", "KillRun", "checked"]

#: A survivor has so long to notice; the promise is a fraction of that, but the machine may be busy.
LIMIT_S = 10.0
#: A kill comes up to so long after the work has begun.
_LATEST_S = 0.03
#: Part of the clients that are killed from their start on, so that some die while they meet the engine.
_EARLY = 0.25
#: What a new process would spend its time importing.
_PRELOAD = ["tests.endurance.kill_run", "lucky_transport.env.vector_env", "tests.endurance.stub_workloads"]


@dataclass(slots=True)
class KillReport:
    """What was found. noticed_s: by kind and victim, how long it took each survivor."""

    noticed_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    errors: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def note(self, title: str, seconds: float) -> None:
        """Note a kill that was noticed."""
        self.noticed_s.setdefault(title, []).append(seconds)


class KillRun:
    """KillReport in one process tree; `close` ends what still runs and looks for what is left."""

    def __init__(self, kinds: Sequence[str], seed: int) -> None:
        self.found = KillReport()
        self._kinds = list(kinds)
        self._rng = random.Random(seed)
        self._prefix = unique_name()
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(_PRELOAD)
        self._engines: dict[str, Any] = {}
        for engine in {engine_of(kind) for kind in kinds}:
            self._start_engine(engine)
        for kind in kinds:
            self._use(kind)
        self._start = settled(self._prefix)
        # The processes of one engine are forked from one image, so that this holds for all that follow.
        self._started = {engine: settled(self._prefix, link[0].pid) for engine, link in self._engines.items()}

    def play(self, kills: int) -> None:
        """Kill so often."""
        for number in range(kills):
            kind = self._rng.choice(self._kinds)
            victim = self._rng.choice(("client", "engine"))
            title = f"{kind}, {victim} killed"
            try:
                seconds = self._kill_client(kind) if victim == "client" else self._kill_engine(kind)
            except Exception as error:  # whatever it is, it is what this run looks for
                self.found.failures.append(f"{number}: {title}: {type(error).__name__}: {error}")
                self._start_again(engine_of(kind))
            else:
                self.found.note(title, seconds)

    def close(self) -> None:
        """End the engines; what they leave is a failure."""
        for engine in tuple(self._engines):
            process, link = self._engines.pop(engine)
            link.close()
            process.join(LIMIT_S)
            if process.is_alive():
                self.found.failures.append(f"the engine {engine} does not end")
                process.kill()
                process.join()
            process.close()
        files = measure(self._prefix).files
        if files:
            self.found.failures.append(f"{files} files of {self._prefix} are left in shared memory")

    # -- a killed client ----------------------------------------------------------------------------------------------

    def _kill_client(self, kind: str) -> float:
        engine = engine_of(kind)
        pid = self._engines[engine][0].pid
        here, there = self._processes.Pipe()
        process = self._processes.Process(target=_work, args=(kind, self._endpoint(engine), there), daemon=True)
        process.start()
        there.close()
        with contextlib.closing(here):
            if self._rng.random() >= _EARLY and not here.poll(LIMIT_S):
                raise AssertionError(f"a client did nothing within {LIMIT_S} s")
            time.sleep(self._rng.uniform(0, _LATEST_S))
            start = time.monotonic()
            process.kill()
            process.join()
            process.close()
        allowed = allowed_engine(self._started[engine])
        left = released(allowed, self._prefix, pid=pid, timeout_s=LIMIT_S)
        seconds = time.monotonic() - start
        if left.exceeds(allowed):
            raise AssertionError(f"the engine holds {left}, at most {allowed} were expected")
        self._use(kind)
        return seconds

    # -- a killed engine ----------------------------------------------------------------------------------------------

    def _kill_engine(self, kind: str) -> float:
        engine = engine_of(kind)
        ended: list[tuple[float, Exception]] = []
        begun = threading.Event()
        thread = threading.Thread(target=_until_it_fails, args=(kind, self._endpoint(engine), begun, ended))
        thread.daemon = True
        thread.start()
        if self._rng.random() >= _EARLY and not begun.wait(LIMIT_S):
            raise AssertionError(f"the work did not begin within {LIMIT_S} s")
        time.sleep(self._rng.uniform(0, _LATEST_S))
        process = self._engines[engine][0]
        start = time.monotonic()
        process.kill()
        thread.join(LIMIT_S)
        if thread.is_alive():
            raise AssertionError(f"the client hangs {LIMIT_S} s after its engine was killed")
        seconds = ended[0][0] - start
        self.found.errors[checked(ended.pop()[1])] += 1  # its traceback holds the client's objects
        self._start_again(engine)
        self._use(kind)
        left = released(self._start, self._prefix, timeout_s=LIMIT_S)
        if left.exceeds(self._start):
            raise AssertionError(f"the client holds {left}, at most {self._start} were expected")
        return max(0.0, seconds)

    # -- engines ------------------------------------------------------------------------------------------------------

    def _endpoint(self, engine: str) -> str:
        return f"shm://{self._prefix}_{engine}"

    def _start_again(self, engine: str) -> None:
        process, link = self._engines.pop(engine)
        process.kill()
        process.join()
        process.close()
        link.close()
        self._start_engine(engine)

    def _start_engine(self, engine: str) -> None:
        here, there = self._processes.Pipe()
        process = self._processes.Process(target=_serve, args=(engine, self._endpoint(engine), there), daemon=True)
        process.start()
        there.close()
        if not here.poll(60.0):
            raise AssertionError(f"the engine {engine} did not start")
        here.recv()
        self._engines[engine] = process, here

    def _use(self, kind: str) -> None:
        """Do a little work, which must succeed."""
        work = load(kind)(self._endpoint(engine_of(kind)))
        next(work)
        work.close()


def made_engine(name: str) -> Engine:
    """Return the engine of this name; in the place of the echo engine, one whose steps can be checked."""
    return CheckedEngine(width=64, height=48) if name == ENGINE else api.make_engine(name)


def _serve(engine: str, endpoint: str, link: Any) -> None:
    with api.serve(made_engine(engine), endpoint):
        link.send(None)
        with contextlib.suppress(EOFError):
            link.recv()


def _work(kind: str, endpoint: str, link: Any) -> None:
    for number, _ in enumerate(load(kind)(endpoint)):
        if not number:
            link.send(None)


def _until_it_fails(kind: str, endpoint: str, begun: threading.Event, ended: list[tuple[float, Exception]]) -> None:
    work = load(kind)(endpoint)
    try:
        for _ in work:
            begun.set()
    except Exception as error:  # it is judged by the thread that killed
        ended.append((time.monotonic(), error))
    work.close()
    begun.set()


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
