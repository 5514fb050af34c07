"""The processes of a run of crashes or kills, and the messages between them and it: pairs of a word and a value.

An engine says "ready" and "closed", a client "round" after each of its connections; at a fault, a process says "fault".
A recorder says "points" instead: which fault points it came to, and how often.
"""

import multiprocessing
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from multiprocessing import forkserver
from typing import Any

from lucky_transport import api
from lucky_transport.engine import Engine
from tests.endurance.checked_engine import CheckedEngine
from tests.endurance.fault_points import Fault, armed, watch
from tests.endurance.workloads import ENGINE, OPERATIONS, ClientThread, work

#: A survivor has so long to notice; the promise is a fraction of that, but the machine may be busy.
LIMIT_S = 10.0
#: And a process that starts or ends.
_START_S = 40.0
#: A fault that is not met by then, in dozens of rounds, is not met at all.
_FAULT_S = 4.0
#: An error of a client may come before the word that the fault was met.
_WORD_S = 0.15
#: The first one chooses the build of the native module.
_PRELOAD = ("tests.endurance.fault_native", __name__, "tests.endurance.preloaded")


class NothingSaid(Exception):
    """A process did not come to its word in time: the machine is too slow, or the fault was not met."""


class FaultNotMet(NothingSaid):
    """The fault was not met though the work went on, or the engine started."""


def fork_server(*preload: str) -> Any:
    """Return a context of multiprocessing whose processes are forked from one image that has imported these."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([*_PRELOAD, *preload])
    forkserver.ensure_running()  # what it opens here is not a leak of the first case
    return processes


class Speaker(ABC):
    """A process that says words, each with a value."""

    pid: int

    @abstractmethod
    def tell(self, value: Any) -> None:
        """Send a value to the process; the first one ends an engine's service."""

    @abstractmethod
    def _poll(self, seconds: float) -> bool:
        """Wait at most so long; True when `_receive` has something to return, or an end to report."""

    @abstractmethod
    def _receive(self) -> tuple[str, Any]:
        """Return the next word and its value. Raises EOFError or ConnectionError when the process has ended."""

    @abstractmethod
    def end(self) -> None:
        """End the process however it is; idempotent."""

    def expect(self, word: str, client: ClientThread | None = None) -> Any:
        """Return the value that comes with this word; other words are passed over.

        Raises NothingSaid, also when `client` has an error before; FaultNotMet when rounds were done meanwhile;
        AssertionError when the process failed or ended.
        """
        limit_s = _FAULT_S if word == "fault" else _START_S
        until = time.monotonic() + limit_s
        passed_over: list[str] = []
        rounds = 0 if client is None else client.rounds
        while time.monotonic() < until:
            if not self._poll(0.02):
                if client is not None and client.error is not None and not self._poll(_WORD_S):
                    raise NothingSaid(f"the client had an error before the fault: {client.error!r}")
                continue
            try:
                found, value = self._receive()
            except (EOFError, ConnectionError) as error:
                raise AssertionError(f"the process ended before it said {word!r}: {error}") from None
            if found == word:
                return value
            if found == "failed":
                raise AssertionError(f"the process failed: {value}")
            passed_over.append(found)
        goes_on = "round" in passed_over or "ready" in passed_over or (client is not None and client.rounds > rounds)
        said = FaultNotMet if word == "fault" and goes_on else NothingSaid
        raise said(f"nothing said {word!r} within {limit_s} s")

    def close(self) -> None:
        """Have an engine close, and end the process. Raises as `expect` does."""
        self.tell(None)
        self.expect("closed")
        self.end()


class Child(Speaker):
    """A process that runs `target(link, *arguments)`."""

    def __init__(self, processes: Any, target: Any, *arguments: Any) -> None:
        self._link, there = processes.Pipe()
        self._process = processes.Process(target=_guarded, args=(target, there, *arguments), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        there.close()

    def tell(self, value: Any) -> None:
        self._link.send(value)

    def _poll(self, seconds: float) -> bool:
        return self._link.poll(seconds)

    def _receive(self) -> tuple[str, Any]:
        return self._link.recv()

    def end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._process.close()
        self._process = None
        self._link.close()


def engine_process(link: Any, engine: str, endpoint: str, fault: Fault | None = None, records: bool = False) -> None:
    """Serve an engine until something is told; the fault, or record, is of its start, its work or its end."""
    seen: dict[str, Counter[str]] = {"start": Counter()}
    phase = "start"
    made = _made(engine)
    if records:
        watch(lambda point: seen[phase].update((point,)))
    elif fault is not None:
        watch(armed(fault, lambda moment, child: link.send(("fault", (moment, child)))))
    with api.serve(made, endpoint):
        phase = "work"
        seen[phase] = Counter()
        link.send(("ready", None))
        with suppress(EOFError):
            link.recv()
        phase = "end"
        seen[phase] = Counter()
    link.send(("points", seen) if records else ("closed", None))
    with suppress(EOFError):
        link.recv()


def client_process(
    link: Any,
    kind: str,
    endpoint: str,
    settings: dict[str, Any],
    fault: Fault | None = None,
    records: bool = False,
    operations: int | None = OPERATIONS,
) -> None:
    """Connect, work and leave again and again until something is told. operations: of a connection, None for no end."""
    seen: Counter[str] = Counter()
    if records:
        watch(lambda point: seen.update((point,)))
    elif fault is not None:
        watch(armed(fault, lambda moment, child: link.send(("fault", (moment, child)))))
    while not link.poll():
        done = 0
        with work(kind, endpoint, **settings) as once:
            while operations is None or done < operations:
                once()
                done += 1
                if done == 1 and operations is None:
                    link.send(("round", None))
        link.send(("round", None))
    link.send(("points", seen))
    with suppress(EOFError):
        link.recv()


def resume(pid: int) -> None:
    """Continue a process that stands still, or is about to."""
    os.kill(pid, signal.SIGCONT)


def _made(name: str) -> Engine:
    """Return the engine of this name; in the place of the echo engine, one whose steps can be checked."""
    return CheckedEngine(width=64, height=48) if name == ENGINE else api.make_engine(name)


def _guarded(target: Any, link: Any, *arguments: Any) -> None:
    try:
        target(link, *arguments)
    except Exception as error:
        link.send(("failed", f"{type(error).__name__}: {error}"))
        raise
