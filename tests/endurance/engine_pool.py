"""The engines of a run: started by name or by a command line, used, ended, and compared with what they held before."""

import contextlib
import os
import select
import shlex
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.process import unique_name
from tests.endurance.children import LIMIT_S, Child, Speaker, engine_process, fork_server
from tests.endurance.fault_points import Fault
from tests.endurance.leaks import allowed_engine, settled
from tests.endurance.workloads import engine_of, work
from tests.support.resources import Resources, measure, released

#: Settings of a client that only a dead peer may keep from its answer.
PATIENT = {"step_timeout_s": LIMIT_S, "command_timeout_s": LIMIT_S, "connect_timeout_s": 1.0}
#: An engine may hold more files than at first: image streams that it keeps for the next client.
_ANY_FILES = 1 << 20


class EnginePool:
    """Engines of the fork server, or of a command line (`commands`, by the name of the engine that they stand for)."""

    def __init__(
        self, *preload: str, settings: Mapping[str, Any] | None = None, commands: Mapping[str, str] | None = None
    ) -> None:
        """settings: of the clients of `use`."""
        self.prefix = unique_name()
        self.processes = fork_server(*preload)
        self._settings, self._commands = settings or {}, commands or {}
        self._running: dict[str, Speaker] = {}
        self._allowed: dict[str, Resources] = {}
        self._client: Resources | None = None

    def endpoint(self, engine: str) -> str:
        """Return where that engine is served."""
        return f"shm://{self.name(engine)}"

    def name(self, engine: str) -> str:
        """Return the name of its segment."""
        return f"{self.prefix}_{engine}"

    def start(self, engine: str) -> None:
        """Start it; returns when it can be connected to."""
        started = self.victim(engine)
        try:
            started.expect("ready")
        except BaseException:
            started.end()
            raise
        self._running[engine] = started

    def victim(self, engine: str, fault: Fault | None = None, records: bool = False) -> Speaker:
        """Return a new engine, which the caller ends: it meets the fault, or records the points that it comes to."""
        command = self._commands.get(engine)
        if command is not None:
            return CommandEngine(command, self.name(engine), fault, records)
        return self.child(engine_process, engine, self.endpoint(engine), fault, records)

    def child(self, target: Any, *arguments: Any) -> Child:
        """Return a process of the fork server."""
        return Child(self.processes, target, *arguments)

    def is_running(self, engine: str) -> bool:
        """True from `start` to `retire`."""
        return engine in self._running

    def pid(self, engine: str) -> int:
        """Return the pid of a running engine."""
        return self._running[engine].pid

    def retire(self, engine: str, *, killed: bool = False) -> None:
        """End it: by closing, or killed."""
        running = self._running.pop(engine, None)
        if running is None:
            return
        try:
            if not killed:
                running.close()
        finally:
            running.end()

    def start_again(self, engine: str) -> None:
        """Kill it and start the next one."""
        self.retire(engine, killed=True)
        self.start(engine)

    def use(self, kind: str) -> None:
        """Do a little work, which must succeed."""
        with work(kind, self.endpoint(engine_of(kind)), **self._settings) as once:
            once()

    @contextlib.contextmanager
    def driven(self, engine: str) -> Any:
        """Have a client that holds the segment's place, so that others use the listener."""
        driver = api.open_transport(self.endpoint(engine), load_settings())
        try:
            yield
        finally:
            driver.close()

    def begin(self, kinds: Sequence[str]) -> None:
        """Start the engines of these kinds of work, do each, and note what this process holds then.

        That is what it may hold after each case. No engine runs after an error.
        """
        names = sorted({engine_of(kind) for kind in kinds})
        try:
            for engine in names:
                self.start(engine)
            for kind in kinds:
                self.use(kind)
            for engine in names:
                self.check_engine(engine)
        except BaseException:
            self.abandon()
            raise
        self._client = settled(self.prefix)

    def check_client(self) -> None:
        """Raise AssertionError when this process holds more than at first, or more files are in shared memory."""
        assert self._client is not None
        left = released(self._client, self.prefix, timeout_s=LIMIT_S)
        if left.exceeds(self._client):
            allowed, self._client = self._client, left  # the next cases are compared with what is there now
            raise AssertionError(f"the client holds {left}, at most {allowed} were expected")

    def check_engine(self, engine: str) -> None:
        """Raise AssertionError where an engine holds more than its like did after the first use."""
        pid = self.pid(engine)
        allowed = self._allowed.get(engine)
        if allowed is None:
            started = allowed_engine(settled(self.prefix, pid))
            self._allowed[engine] = replace(started, files=_ANY_FILES)
            return
        left = released(allowed, self.prefix, pid=pid, timeout_s=LIMIT_S)
        if left.exceeds(allowed):
            raise AssertionError(f"the engine holds {left}, at most {allowed} were expected")

    def mappings(self, engine: str) -> int:
        """Return how many mappings of shared memory the engine has."""
        return measure(self.prefix, self.pid(engine)).mappings

    def mapped(self, engine: str) -> list[str]:
        """Return what these mappings show, a name for each."""
        maps = Path(f"/proc/{self.pid(engine)}/maps").read_text().splitlines()
        return [line.split(maxsplit=5)[5] for line in maps if " /dev/shm/" in line or " /memfd:" in line]

    def abandon(self) -> None:
        """Kill the engines, after a failure."""
        for engine in tuple(self._running):
            self.retire(engine, killed=True)

    def close(self) -> None:
        """End the engines. Raises AssertionError for one that does not end, and for files that are left."""
        for engine in tuple(self._running):
            self.retire(engine)
        left = sorted(path.name for path in Path("/dev/shm").glob(f"{self.prefix}*"))
        if left:
            raise AssertionError(f"left in shared memory: {', '.join(left)}")


class CommandEngine(Speaker):
    """An engine that writes a line when it is ready, and ends at SIGTERM.

    A build with fault points (`kit_builds`) meets the fault, or records the points that it comes to.
    """

    def __init__(self, command: str, name: str, fault: Fault | None = None, records: bool = False) -> None:
        """command: `{name}` in it stands for the name of the segment."""
        environment = {**os.environ, "MONO_CRASH_NOFILE": "1"}  # mono leaves a file where it is ended by a signal
        if records or fault is not None:
            environment["FAULT"] = f"{fault.point} {fault.nth} {fault.deed}" if fault is not None else "record"
        arguments = shlex.split(command.format(name=name))
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, bufsize=0, env=environment)
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.pid = self._process.pid
        self._unread = b""
        self._records = records
        self._phase = "start"
        self._seen: dict[str, Counter[str]] = {"start": Counter()}

    def tell(self, value: Any) -> None:
        while self._records and self._poll(0):  # these points are not of its end
            self._receive()
        self._begin("end")
        self._process.terminate()

    def _begin(self, phase: str) -> None:
        self._phase = phase
        self._seen[phase] = Counter()

    def _poll(self, seconds: float) -> bool:
        return b"\n" in self._unread or bool(select.select([self._output], [], [], seconds)[0])

    def _receive(self) -> tuple[str, Any]:
        line = self._line()
        if line is None:
            return ("points", self._seen) if self._records else ("closed", None)
        word, *values = line.split() or [""]
        if word == "fault":
            return word, tuple(map(int, values))
        if word == "point":
            self._seen[self._phase].update(values)
        elif self._phase == "start":
            self._begin("work")
            return "ready", None
        return "", None

    def _line(self) -> str | None:
        """Return the next line; None when the engine has ended as it should. Raises EOFError for another end."""
        while b"\n" not in self._unread:
            read = self._output.read(1 << 16)
            if not read:
                if status := self._process.wait(LIMIT_S):
                    raise EOFError(f"exit status {status}")
                return None
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
