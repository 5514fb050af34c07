"""A run of crashes: a process meets a fault inside a publish, and its peer must not suffer (`crashes`)."""

import inspect
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucky_transport.errors import NotReachable
from lucky_transport.shm.segment import header, segment
from lucky_transport.shm.segment.segment_files import map_segment
from lucky_transport.shm.timing import HAND_OVER_S
from tests.endurance.children import LIMIT_S, FaultNotMet, NothingSaid, client_process, resume
from tests.endurance.crash_cases import KINDS, LANES, CrashCase, CrashReport, Lane, Reached, record
from tests.endurance.engine_pool import PATIENT, EnginePool
from tests.endurance.workloads import ENGINE, SESSIONS_ENGINE, ClientThread, checked, engine_of

#: A survivor of a machine with nothing else to do has to know within this time.
NOTICED_S = 0.1
#: A case that was late, or in which the machine was too slow for the deadlines, is played so often in all.
_TRIES = 4
#: Deadlines of a survivor whose peer stands still.
_DEADLINE_S = 0.3
_HASTY = dict.fromkeys(PATIENT, _DEADLINE_S)
#: How long a pause lasts, in which nothing may fail.
_PAUSE_S = 0.15
_POLL_S = 0.002


class CrashRun:
    """CrashReport of cases over engines of its own; `close` ends what still runs and looks for what is left."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str] = KINDS,
        command: str | None = None,
        noticed_s: float = NOTICED_S,
    ) -> None:
        """command: of a kit's engine, in Python's place. noticed_s: the longest that a survivor may take to know."""
        self.found = CrashReport()
        self._noticed_s = noticed_s
        self._rng = random.Random(seed)
        self._engines = EnginePool(
            __name__, "click", settings=PATIENT, commands={} if command is None else {ENGINE: command}
        )
        self._kinds = kinds
        self._lanes: Sequence[Lane] = LANES if command is None else ("segment",)  # no kit has a listener
        self._engines.begin(kinds)

    def reached(self) -> list[Reached]:
        """Return the points that the kinds of work come to."""
        found: list[Reached] = []
        for kind in self._kinds:
            for lane in self._lanes:
                if (kind, lane) != ("steps", "listener"):  # a listener's client cannot step
                    found += record(self._engines, kind, lane)
        return found

    def play(self, case: CrashCase) -> None:
        """Play the case; one that was late is played again, one whose fault was not met with the point's first time."""
        one = case.reached
        title = one.kind, one.victim
        for attempt in range(_TRIES):
            is_last = attempt == _TRIES - 1
            try:
                seconds = self._client_case(case) if one.victim == "client" else self._engine_case(case, attempt)
            except Exception as error:  # whatever it is, it is what this run looks for
                with suppress(AssertionError, NothingSaid):  # a later case starts it, or fails
                    self._engines.start_again(engine_of(one.kind))
                if isinstance(error, NothingSaid) and not is_last:
                    self.found.played_again += 1
                    if isinstance(error, FaultNotMet):
                        case = replace(case, fault=replace(case.fault, nth=1))
                    continue
                if isinstance(error, FaultNotMet):
                    self.found.not_met.append(case)
                    return
                self.found.cases[title] += 1
                self.found.failures.append((case, f"{type(error).__name__}: {error}"))
                return
            if seconds is not None and seconds > self._noticed_s:
                if not is_last:
                    self.found.played_again += 1
                    continue
                self.found.failures.append((case, f"noticed after {1000 * seconds:.0f} ms"))
            self.found.cases[title] += 1
            if seconds is not None:
                self.found.noticed_s.setdefault(title, []).append(seconds)
            return

    # -- a client's fault ---------------------------------------------------------------------------------------------

    def _client_case(self, case: CrashCase) -> float | None:
        """Return how long the engine took to let go of it; None where the client goes on."""
        one, engines = case.reached, self._engines
        engine = engine_of(one.kind)
        if not engines.is_running(engine):
            engines.start(engine)
        with ExitStack() as stack:
            if one.lane == "listener":
                stack.enter_context(engines.driven(engine))
            mappings = engines.mappings(engine)
            options = dict(PATIENT)
            victim = engines.child(client_process, one.kind, engines.endpoint(engine), options, case.fault)
            stack.callback(victim.end)
            moment, forked = victim.expect("fault")
            if forked:
                stack.callback(_end, forked)
            if case.fault.deed in ("stop", "pause"):
                if "listener" in self._lanes:  # others go on meanwhile
                    engines.use("sessions" if engine == SESSIONS_ENGINE else "calls")
                time.sleep(max(0.0, _PAUSE_S - (time.monotonic() - moment / 1e9)))
                resume(victim.pid)
                for _ in range(2):
                    victim.expect("round")
                return None
            until = time.monotonic() + LIMIT_S
            while engines.mappings(engine) > mappings or self._is_held(one):
                if time.monotonic() > until:
                    kept = ", ".join(engines.mapped(engine))
                    raise AssertionError(f"the engine holds on to a client {LIMIT_S} s after it left, of {kept}")
                time.sleep(_POLL_S)
            seconds = time.monotonic() - moment / 1e9
        engines.use(one.kind)
        engines.check_engine(engine)
        return seconds

    def _is_held(self, one: Reached) -> bool:
        """True while the segment's place is a client's; that of a driver beside is meant to be."""
        if one.lane == "listener":
            return False
        mapping = map_segment(Path("/dev/shm") / self._engines.name(engine_of(one.kind)))
        if mapping is None or not header.get(mapping, "client_features"):
            return False
        # Features with a start time alone are of a client that died before the engine knew it; the next one clears.
        return bool(header.get(mapping, "client_pid")) or not header.get(mapping, "client_start")

    # -- an engine's fault --------------------------------------------------------------------------------------------

    def _engine_case(self, case: CrashCase, attempt: int) -> float | None:
        """Return how long its client took to get an error; None where both go on."""
        one, fault, engines = case.reached, case.fault, self._engines
        engine = engine_of(one.kind)
        # What the engine before it left decides which lines remove it. A client that finds that before the next engine
        # has the lock waits for that one.
        killed = attempt % 2 == 0 if "remove_dead" in one.point else self._rng.random() < 0.5
        if fault.deed == "pause" and _is_before_the_lock(one.point):
            killed = False
        engines.retire(engine, killed=killed)
        options = dict(_HASTY if fault.deed == "stop" else PATIENT)
        if one.phase == "start":
            options["connect_timeout_s"] = LIMIT_S if fault.deed == "pause" else _DEADLINE_S
        endpoint = engines.endpoint(engine)
        seconds: float | None = None
        moment = forked = 0
        with ExitStack() as stack:
            victim = engines.victim(engine, fault)
            stack.callback(victim.end)
            if one.phase != "start":
                victim.expect("ready")
                if one.lane == "listener":
                    stack.enter_context(engines.driven(engine))
            else:  # an engine that is not there yet is not waited for beyond the deadline of connecting
                moment, forked = victim.expect("fault")
            client = ClientThread(one.kind, endpoint, options, LIMIT_S)
            stack.callback(client.stop)
            if one.phase == "end":
                client.await_rounds(1)
                victim.tell(None)
            if one.phase != "start":
                moment, forked = victim.expect("fault", client)
            if forked:
                stack.callback(_end, forked)
            if fault.deed == "pause":
                time.sleep(_PAUSE_S)
                resume(victim.pid)
                self._goes_on(client, one)
            else:
                seconds = self._noticed(client, moment, options, is_stop=fault.deed == "stop")
            if fault.deed == "stop":
                resume(victim.pid)
            if fault.deed in ("stop", "pause"):
                if one.phase == "start":
                    victim.expect("ready")
                if one.phase != "end":
                    engines.use(one.kind)
                    victim.tell(None)
                victim.expect("closed")
        engines.start(engine)
        engines.use(one.kind)
        engines.check_client()
        engines.check_engine(engine)
        return seconds

    @staticmethod
    def _goes_on(client: ClientThread, one: Reached) -> None:
        """Have the client do two more rounds, and leave. Raises its error."""
        if one.phase != "end":
            client.await_rounds(client.rounds + 2)
        client.stop()
        if one.phase != "end" and client.error is not None:
            raise client.error

    def _noticed(self, client: ClientThread, moment: int, options: dict[str, Any], *, is_stop: bool) -> float:
        """Return how long after the fault, or its deadline, the client got its error, which has to be one of ours."""
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

    def close(self) -> None:
        """End the engines; what they leave is a failure."""
        try:
            self._engines.close()
        except Exception as error:
            self.found.left.append(str(error))


def _is_before_the_lock(point: str) -> bool:
    """True for a point at which an engine that starts does not have its lock yet."""
    lines = inspect.getsource(segment.create).splitlines()
    taken = next(number for number, line in enumerate(lines) if "lockfile.acquire" in line)
    return "acquire" in point or point in ("lock.opened", *(f"segment create+{number}" for number in range(taken + 1)))


def _end(pid: int) -> None:
    """End a process that a victim forked; the system takes it up."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
