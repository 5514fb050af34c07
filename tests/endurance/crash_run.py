"""A run of crashes: a process meets a fault inside a publish, and its peer must not suffer (`crashes`)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import NotReachable
from lucky_transport.process import unique_name
from lucky_transport.shm import header
from lucky_transport.shm.segment_files import DIRECTORY, map_segment
from lucky_transport.shm.timing import HAND_OVER_S
from tests.endurance.fault_points import Fault, armed, watch
from tests.endurance.kill_run import LIMIT_S, checked, made_engine
from tests.endurance.leaks import allowed_engine, settled
from tests.endurance.workloads import ENGINE, SESSIONS_ENGINE, engine_of, load
from tests.support.resources import measure, released

__all__ = ["KINDS", "NOTICED_S", "CrashCase", "CrashReport", "CrashRun", "Reached"]

#: What is done with the engine meanwhile: kinds of `workloads`.
KINDS = ("steps", "calls", "streams", "images", "sessions")
#: A survivor has to know within this time.
NOTICED_S = 0.1
#: A case that was late, or in which the machine was too slow for the deadlines, is played again so often.
_TRIES = 4
#: Deadlines of a survivor whose peer stands still.
_DEADLINE_S = 0.3
#: How long a pause lasts, in which nothing may fail.
_PAUSE_S = 0.15
_PATIENT = {"step_timeout_s": LIMIT_S, "command_timeout_s": LIMIT_S, "connect_timeout_s": 1.0}
_HASTY = dict.fromkeys(_PATIENT, _DEADLINE_S)
#: Operations of a workload between connecting and leaving.
_TIMES = 3
_ROUNDS = 3
_POLL_S = 0.002
_PRELOAD = ["tests.endurance.fault_native", "tests.endurance.crash_run", "lucky_transport.env.vector_env"]

Victim = Literal["client", "engine"]
Lane = Literal["segment", "listener"]


@dataclass(frozen=True, slots=True)
class Reached:
    """A point that a process comes to. phase: of an engine's life ("start", "work" or "end"); a client has none."""

    victim: Victim
    kind: str
    lane: Lane
    native: bool
    point: str
    count: int
    phase: str = "work"


@dataclass(frozen=True, slots=True)
class CrashCase:
    """A fault of a process that works at `reached`. lane: over the segment's rings, or those that a listener gave."""

    reached: Reached
    fault: Fault

    def __str__(self) -> str:
        one = self.reached
        build = "native" if one.native else "fallback"
        return f"{one.victim} {self.fault.deed} at {one.point} ({self.fault.nth}.), {one.kind}, {one.lane}, {build}"


@dataclass(slots=True)
class CrashReport:
    """What was found. noticed_s: how long it took each survivor, by kind and victim."""

    noticed_s: dict[tuple[str, str], list[float]] = field(default_factory=dict[tuple[str, str], list[float]])
    failures: list[tuple[CrashCase, str]] = field(default_factory=list[tuple[CrashCase, str]])
    errors: Counter[str] = field(default_factory=Counter[str])
    played_again: int = 0


class _Again(Exception):
    """The case says nothing: the machine was too slow for it."""


class CrashRun:
    """CrashReport in one process tree; `close` ends what still runs and looks for what is left."""

    def __init__(self, seed: int, builds: Sequence[bool] = (True, False)) -> None:
        """builds: values of the setting `native` of both sides."""
        self.found = CrashReport()
        self._rng = random.Random(seed)
        self._prefix = unique_name()
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(_PRELOAD)
        self._engines: dict[tuple[str, bool], _Child] = {}
        self._allowed: dict[tuple[str, bool], Any] = {}
        for native in builds:
            for engine in (ENGINE, SESSIONS_ENGINE):
                self._start_engine(engine, native)
            for kind in KINDS:
                self._use(kind, native)
        self._start, self._held = settled(self._prefix), descriptors()

    # -- which points there are ---------------------------------------------------------------------------------------

    def reached(self, kind: str, lane: Lane, native: bool) -> Generator[Reached]:
        """Have both sides work once without a fault and yield which points they come to, and how often."""
        engine = engine_of(kind)
        with ExitStack() as stack:
            self._retire(engine, native)
            child = self._start_engine(engine, native, fault=None, records=True)
            if lane == "listener":
                stack.enter_context(self._driver(engine, native))
            client = self._child(_client_process, kind, self._endpoint(engine, native), {"native": native}, None)
            for _ in range(_ROUNDS):
                client.expect("round")
            client.tell(None)
            points: Counter[str] = client.expect("points")
            client.end()
        child.tell(None)
        phases: dict[str, Counter[str]] = child.expect("points")
        child.end()
        del self._engines[engine, native]
        self._start_engine(engine, native)
        for point, count in sorted(points.items()):
            yield Reached("client", kind, lane, native, point, count)
        earlier: set[str] = set()
        for phase, seen in phases.items():
            for point, count in sorted(seen.items()):
                if point not in earlier:
                    yield Reached("engine", kind, lane, native, point, count, phase)
            earlier.update(seen)

    def case(self, reached: Reached, deed: str) -> CrashCase:
        """Return a case of this point; which of the times it is reached is drawn."""
        nth = 1 if reached.phase == "end" else self._rng.randint(1, min(reached.count, 4))
        return CrashCase(reached, Fault(reached.point, nth, deed))

    # -- cases --------------------------------------------------------------------------------------------------------

    def play(self, case: CrashCase) -> None:
        """Play the case; one that was late, or said nothing, is played again."""
        one = case.reached
        for attempt in range(_TRIES):
            is_last = attempt == _TRIES - 1
            try:
                if one.victim == "client":
                    seconds = self._client_case(case)
                else:
                    seconds = self._engine_case(case)
            except Exception as error:  # whatever it is, it is what this run looks for
                self._start_again(engine_of(one.kind), one.native)
                if isinstance(error, _Again) and not is_last:
                    self.found.played_again += 1
                    continue
                self.found.failures.append((case, f"{type(error).__name__}: {error}"))
                return
            if seconds <= NOTICED_S or is_last:
                self.found.noticed_s.setdefault((one.kind, one.victim), []).append(seconds)
                if seconds > NOTICED_S:
                    self.found.failures.append((case, f"noticed after {1000 * seconds:.0f} ms"))
                return
            self.found.played_again += 1

    def _client_case(self, case: CrashCase) -> float:
        """A client meets the fault; return how long the engine took to let go of it, or to serve another one."""
        one, stops = case.reached, case.fault.deed in ("stop", "pause")
        engine = engine_of(one.kind)
        endpoint = self._endpoint(engine, one.native)
        if (engine, one.native) not in self._engines:
            self._start_engine(engine, one.native)
        survivor = self._engines[engine, one.native]
        with ExitStack() as stack:
            if one.lane == "listener":
                stack.enter_context(self._driver(engine, one.native))
            before = measure(self._prefix, survivor.pid)
            options = {"native": one.native, **_PATIENT}
            victim = self._child(_client_process, one.kind, endpoint, options, case.fault)
            stack.callback(victim.end)
            moment, forked = victim.expect_fault()
            if forked:
                stack.callback(_end, forked)
            if stops:
                self._use("sessions" if engine == SESSIONS_ENGINE else "calls", one.native)  # a listener's client
                seconds = time.monotonic() - moment / 1e9
                time.sleep(max(0.0, _PAUSE_S - seconds))
                victim.go_on()
                for _ in range(2):
                    victim.expect("round")
                return 0.0
            until = time.monotonic() + LIMIT_S
            while measure(self._prefix, survivor.pid).mappings > before.mappings or self._is_held(one):
                if time.monotonic() > until:
                    raise AssertionError(f"the engine holds on to a client {LIMIT_S} s after it left")
                time.sleep(_POLL_S)
            seconds = time.monotonic() - moment / 1e9
        self._use(one.kind, one.native)
        self._check_engine(engine, one.native)
        return seconds

    def _is_held(self, one: Reached) -> bool:
        """True while the segment's place is a client's; that of a driver beside is meant to be."""
        if one.lane == "listener":
            return False
        mapping = map_segment(DIRECTORY / self._name(engine_of(one.kind), one.native))
        return mapping is not None and bool(header.get(mapping, "client_pid") or header.get(mapping, "client_features"))

    def _engine_case(self, case: CrashCase) -> float:
        """An engine meets the fault; return how long its client took to get an error."""
        one, fault = case.reached, case.fault
        engine = engine_of(one.kind)
        self._retire(engine, one.native, killed=self._rng.random() < 0.5 or "remove_dead" in one.point)
        options = {"native": one.native, **_PATIENT}
        if fault.deed == "stop":
            options.update(_HASTY)
        if one.phase == "start":
            options["connect_timeout_s"] = _DEADLINE_S
        endpoint = self._endpoint(engine, one.native)
        with ExitStack() as stack:
            victim = self._child(_engine_process, engine, endpoint, one.native, fault)
            stack.callback(victim.end)
            if one.phase != "start":
                victim.expect("ready")
                if one.lane == "listener":
                    stack.enter_context(self._driver(engine, one.native, may_fail=True))
            client = _ClientThread(one.kind, endpoint, options)
            stack.callback(client.stop)
            if one.phase == "end":
                client.rounds_done(1)
                victim.tell(None)
            moment, forked = victim.expect_fault(client)
            if forked:
                stack.callback(_end, forked)
            if fault.deed == "pause":
                time.sleep(_PAUSE_S)
                victim.go_on()
                if one.phase == "work":
                    client.rounds_done(client.rounds + 2)
                client.stop()
                if one.phase == "work" and client.error is not None:
                    raise client.error
                seconds = 0.0
            else:
                seconds = self._noticed(client, moment, options, is_stop=fault.deed == "stop")
            if fault.deed == "stop":
                victim.go_on()
            if fault.deed in ("stop", "pause"):
                if one.phase == "start":
                    victim.expect("ready")
                if one.phase != "end":
                    self._use(one.kind, one.native)
                    victim.tell(None)
                victim.expect("closed")
        self._start_engine(engine, one.native)
        self._use(one.kind, one.native)
        left = released(self._start, self._prefix, timeout_s=LIMIT_S)
        if replace(left, files=0).exceeds(replace(self._start, files=0)):
            found = f"the client holds {left}, at most {self._start} were expected; new: {descriptors() - self._held}"
            self._start, self._held = left, descriptors()  # what the next cases are compared with
            raise AssertionError(found)
        self._check_engine(engine, one.native)
        return seconds

    def _noticed(self, client: _ClientThread, moment: int, options: dict[str, Any], *, is_stop: bool) -> float:
        """Return how long after the fault, or after its deadline, the client got its error, which has to be one of ours."""
        client.join()
        if client.error is None:
            raise AssertionError("the client goes on without its engine")
        self.found.errors[checked(client.error)] += 1
        allowed = 0.0
        if isinstance(client.error, NotReachable):  # it waits for an engine that may still come
            allowed = options["connect_timeout_s"]
        elif is_stop:  # and leaving waits a moment for an engine that lives to let go
            allowed = _DEADLINE_S + HAND_OVER_S
        # An operation begins before the fault or after it: its deadline ends at most so much later.
        return max(0.0, client.ended_s - moment / 1e9 - allowed - (client.begun_after(moment) if allowed else 0.0))

    # -- what stays ---------------------------------------------------------------------------------------------------

    def _check_engine(self, engine: str, native: bool) -> None:
        """Raise where an engine holds more than it did after its first use."""
        pid = self._engines[engine, native].pid
        allowed = self._allowed.get((engine, native))
        if allowed is None:
            self._allowed[engine, native] = allowed_engine(settled(self._prefix, pid))
            return
        left = released(replace(allowed, files=1 << 20), self._prefix, pid=pid, timeout_s=LIMIT_S)
        if left.exceeds(replace(allowed, files=1 << 20)):
            raise AssertionError(f"the engine holds {left}, at most {allowed} were expected")

    def close(self) -> None:
        """End the engines; what they leave is a failure."""
        for engine, native in tuple(self._engines):
            self._retire(engine, native)
        left = sorted(path.name for path in DIRECTORY.glob(f"{self._prefix}*"))
        if left:
            raise AssertionError(f"left in shared memory: {', '.join(left)}")

    # -- processes ----------------------------------------------------------------------------------------------------

    def _name(self, engine: str, native: bool) -> str:
        return f"{self._prefix}_{engine}{'' if native else '_py'}"

    def _endpoint(self, engine: str, native: bool) -> str:
        return f"shm://{self._name(engine, native)}"

    def _child(self, target: Any, *arguments: Any) -> _Child:
        return _Child(self._processes, target, *arguments)

    def _start_engine(self, engine: str, native: bool, fault: Fault | None = None, records: bool = False) -> _Child:
        endpoint = self._endpoint(engine, native)
        child = self._child(_engine_process, engine, endpoint, native, fault, records)
        child.expect("ready")
        self._engines[engine, native] = child
        return child

    def _start_again(self, engine: str, native: bool) -> None:
        self._retire(engine, native, killed=True)
        self._start_engine(engine, native)

    def _retire(self, engine: str, native: bool, *, killed: bool = False) -> None:
        child = self._engines.pop((engine, native), None)
        if child is None:
            return
        if not killed:
            child.tell(None)
            child.expect("closed")
        child.end()

    def _use(self, kind: str, native: bool) -> None:
        """Do a little work, which must succeed."""
        work = load(kind)(self._endpoint(engine_of(kind), native), native=native, **_PATIENT)
        with contextlib.closing(work):
            next(work)

    @contextlib.contextmanager
    def _driver(self, engine: str, native: bool, *, may_fail: bool = False) -> Generator[None]:
        """Have a client that holds the segment's place, so that others use the listener."""
        driver = api.open_transport(self._endpoint(engine, native), load_settings({"native": native}))
        try:
            yield
        finally:
            driver.close()


class _Child:
    """A process, and the messages between it and us: pairs of a word and a value."""

    def __init__(self, processes: Any, target: Any, *arguments: Any) -> None:
        self._link, there = processes.Pipe()
        self._process = processes.Process(target=_guarded, args=(target, there, *arguments), daemon=True)
        self._process.start()
        self.pid: int = self._process.pid
        there.close()

    def tell(self, value: Any) -> None:
        self._link.send(value)

    def expect(self, word: str) -> Any:
        """Return the value that comes with this word; other words are passed over."""
        return self._await(word, None)

    def expect_fault(self, client: _ClientThread | None = None) -> tuple[int, int]:
        """Return the moment of the fault, and the pid of the child that was forked at it or 0."""
        return self._await("fault", client)

    def _await(self, word: str, client: _ClientThread | None) -> Any:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            if not self._link.poll(0.02):
                if client is not None and client.error is not None and not self._link.poll(_PAUSE_S):
                    raise _Again(f"the client had an error before the fault: {client.error!r}")
                continue
            try:
                found, value = self._link.recv()
            except (EOFError, ConnectionError):
                raise AssertionError(f"the process ended before it said {word!r}") from None
            if found == word:
                return value
            if found == "failed":
                raise AssertionError(f"the process failed: {value}")
        raise _Again(f"nothing said {word!r} within {LIMIT_S} s")

    def go_on(self) -> None:
        """Continue the stopped process; it may not be quite stopped yet."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """End the process however it is; idempotent."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._process.close()
        self._process = None
        self._link.close()


class _ClientThread:
    """A client of this process that works until it fails, or is told to stop."""

    def __init__(self, kind: str, endpoint: str, settings: dict[str, Any]) -> None:
        self.error: Exception | None = None
        self.rounds = 0
        self.ended_s = 0.0
        self._begun_ns = 0
        self._stops = False
        self._arguments = kind, endpoint, settings
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        kind, endpoint, settings = self._arguments
        while not self._stops and self.error is None:
            work = load(kind)(endpoint, **settings)
            try:
                for _ in range(_TIMES):
                    self._begun_ns = time.monotonic_ns()
                    next(work)
                work.close()
                self.rounds += 1
            except Exception as error:  # it is judged by the thread that looks on
                self.ended_s = time.monotonic()
                self.error = error
                with suppress(Exception):
                    work.close()

    def begun_after(self, moment: int) -> float:
        """Return how many seconds after the fault the last operation began."""
        return max(0.0, (self._begun_ns - moment) / 1e9)

    def rounds_done(self, rounds: int) -> None:
        """Wait for so many rounds, or an error."""
        until = time.monotonic() + LIMIT_S
        while self.rounds < rounds and self.error is None:
            if time.monotonic() > until:
                raise AssertionError(f"the client did {self.rounds} rounds in {LIMIT_S} s")
            time.sleep(_POLL_S)

    def join(self) -> None:
        """Wait for the error. Raises AssertionError for a client that hangs."""
        until = time.monotonic() + LIMIT_S
        while self._thread.is_alive() and time.monotonic() < until:
            self._thread.join(0.05)
        if self._thread.is_alive():
            raise AssertionError(f"the client hangs, {LIMIT_S} s after its engine left")

    def stop(self) -> None:
        """End the work and drop what it holds."""
        self._stops = True
        self.join()
        error = self.error
        while error is not None:  # their tracebacks hold the client's objects
            error.__traceback__ = None
            error = error.__cause__ or error.__context__


def _guarded(target: Any, link: Any, *arguments: Any) -> None:
    try:
        target(link, *arguments)
    except Exception as error:
        link.send(("failed", f"{type(error).__name__}: {error}"))
        raise


def _engine_process(
    link: Any, engine: str, endpoint: str, native: bool, fault: Fault | None, records: bool = False
) -> None:
    seen: dict[str, Counter[str]] = {"start": Counter()}
    made = made_engine(engine)
    if records:
        watch(lambda point: seen[phase].update((point,)))
    elif fault is not None:
        watch(armed(fault, lambda moment, child: link.send(("fault", (moment, child)))))
    phase = "start"
    with api.serve(made, endpoint, native=native):
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


def _client_process(link: Any, kind: str, endpoint: str, settings: dict[str, Any], fault: Fault | None) -> None:
    seen: Counter[str] = Counter()
    watch(
        (lambda point: seen.update((point,)))
        if fault is None
        else armed(fault, lambda moment, child: link.send(("fault", (moment, child))))
    )
    while not link.poll():
        work = load(kind)(endpoint, **settings)
        for _ in range(_TIMES):
            next(work)
        work.close()
        link.send(("round", None))
    link.send(("points", seen))
    with suppress(EOFError):
        link.recv()


def _end(pid: int) -> None:
    """End a process that a victim forked; the system takes it up."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descriptors() -> set[str]:
    """Return what this process has open, each with its number."""
    found: set[str] = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that listed them
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found
