"""Runs both sides of a program, over TCP or under `lucky-transport run`, and bounds every wait."""

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.service_caller import ServiceCaller
from tests.programs.programs import Program
from tests.support.resources import free_port

SIDE = Path(__file__).parent / "cases" / "side.py"
#: How long a program may take from start to end. A machine that is busy reaches a fraction of it.
LIMIT_S = 240.0

#: Small calls and rounds of a program that is recorded: enough that both transports can be timed with them.
_FEW = ("20", "10")


class ProgramFailed(Exception):
    """A side that ended early or did not end, with the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program answered, and what it took.

    over_shm, over_grpc: calls of the client by the report of `run`; None over TCP. The rest is 0.0 where nothing was
    timed; CPU seconds are those of the timed part.
    """

    equal: Any
    over_shm: int | None = None
    over_grpc: int | None = None
    p50_us: float = 0.0
    rounds_per_s: float = 0.0
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0


def run_program(program: Program, python: str, *, shm: bool, timed: bool = False, limit_s: float = LIMIT_S) -> Outcome:
    """Run server and client of the program in this Python, and return what came of it; raises ProgramFailed."""
    port, name = free_port(), unique_name()
    counts = [str(program.calls), str(program.rounds)] if timed else []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as reports:
        run = [python, "-m", "lucky_transport", "run", "--transport", "shm"]
        run += ["--map", f"127.0.0.1:{port}=shm://{name}", "--report"]

        def side(*arguments: str) -> AbstractContextManager[_Side]:
            under = [*run, f"{reports}/{arguments[0]}", "--"] if shm else []
            return _side([*under, python, str(SIDE), program.case, *arguments], folder, limit_s)

        with side("server", str(port)) as server:
            server.expect("ready")
            with side("client", str(port), *counts) as client:
                equal = client.expect("equal")
                times: dict[str, float] = {}
                if timed:
                    before = server.ask("cpu_s")
                    times = client.reply(["p50_us", "rounds_per_s", "cpu_s"])
                    times["server_cpu_s"] = server.ask("cpu_s") - before
                    times["client_cpu_s"] = times.pop("cpu_s")
                client.expect("ended")
        return Outcome(equal, *(_calls(Path(reports)) if shm else ()), **times)


def record_program(program: Program, python: str, file: Path, limit_s: float = LIMIT_S) -> None:
    """Run both sides over TCP, and record what the client calls, a few times; raises ProgramFailed.

    Each process that makes calls has a file of its own: `file`, and others named after it.
    """
    port = str(free_port())
    run = [python, "-m", "lucky_transport", "run", "--transport", "grpc", "--quiet", "--record", str(file), "--"]
    side = [python, str(SIDE), program.case]
    with tempfile.TemporaryDirectory() as folder, _side([*side, "server", port], folder, limit_s) as server:
        server.expect("ready")
        with _side([*run, *side, "client", port, *_FEW], folder, limit_s) as client:
            client.expect("equal")
            client.reply(["p50_us", "rounds_per_s", "cpu_s"])
            client.expect("ended")


@contextmanager
def served_in_shm(program: Program, python: str, limit_s: float = LIMIT_S) -> Generator[str]:
    """Run the server in shared memory, and give its endpoint once it answers; raises ProgramFailed."""
    port, endpoint = free_port(), f"shm://{unique_name()}"
    run = [python, "-m", "lucky_transport", "run", "--transport", "shm", "--quiet", "--map"]
    run += [f"127.0.0.1:{port}={endpoint}", "--"]
    side = [python, str(SIDE), program.case, "server", str(port)]
    with tempfile.TemporaryDirectory() as folder, _side([*run, *side], folder, limit_s) as server:
        server.expect("ready")
        with ServiceCaller(endpoint) as caller:
            if not caller.is_ready(limit_s):
                raise ProgramFailed(f"{program.name}: nothing answers at {endpoint} within {limit_s:g} s")
        yield endpoint


def _calls(reports: Path) -> tuple[int, int]:
    """Return how many calls the channels of both sides made over shared memory and over gRPC."""
    rows = [row for report in reports.iterdir() for row in json.loads(report.read_text())["calls"]]
    made = [row for row in rows if row["role"] == "client"]
    over_shm = sum(row["count"] for row in made if row["endpoint"])
    return over_shm, sum(row["count"] for row in made) - over_shm


def clean_environment() -> dict[str, str]:
    """Return the environment without what would steer Python or this project."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTHON"))}


class _Side:
    """A process that speaks lines of JSON; after `limit_s` it is killed, so that no reading waits longer."""

    def __init__(self, command: Sequence[str], folder: str, limit_s: float) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=clean_environment(),
            cwd=folder,
            start_new_session=True,
        )
        self._is_late = False
        self._limit_s = limit_s
        self._watchdog = threading.Timer(limit_s, self._kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def expect(self, key: str) -> Any:
        """Return the value of the next line, which has this key."""
        return self._line([key])[key]

    def ask(self, key: str) -> Any:
        """Send a line, and return the value of the answer."""
        return self.reply([key])[key]

    def reply(self, keys: Sequence[str]) -> dict[str, Any]:
        """Send a line, and return the answer, which has these keys."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line(keys)

    def _line(self, keys: Sequence[str]) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._fail()
        found = json.loads(line)
        assert found.keys() == set(keys), found
        return found

    def wait(self) -> None:
        """End its stdin, and return when it has ended with 0; a program that does not end is late too."""
        self._process.communicate()
        if self._process.returncode:
            self._fail()

    def close(self) -> None:
        """End the process, and all that it started."""
        self._watchdog.cancel()
        self._end_all()
        self._process.communicate()
        self._stderr.close()

    def _kill(self) -> None:
        self._is_late = True
        self._end_all()

    def _end_all(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _fail(self) -> None:
        self._process.wait()
        self._stderr.seek(0)
        said = "\n".join(self._stderr.read().splitlines()[-12:])
        why = f"did not end within {self._limit_s:g} s" if self._is_late else f"ended with {self._process.returncode}"
        raise ProgramFailed(f"{' '.join(map(str, self._process.args[-5:]))}: {why}\n{said}")  # pyright: ignore


@contextmanager
def _side(command: Sequence[str], folder: str, limit_s: float) -> Generator[_Side]:
    side = _Side(command, folder, limit_s)
    try:
        yield side
        side.wait()
    finally:
        side.close()
