"""The programs that a case is measured with, each a process of its own.

A pair: a client of a server, into which a Job goes and out of which its Outcome comes. Grpc and our channel are
used there alone, so no pair finds the threads of another. A whole program: the same one against gRPC, and
unmodified under `lucky-transport run`. The waiting strategy is set by environment, as a user of existing code sets it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, PeerTimeout, TransportError
from lucky_transport.foreign_code import import_problem
from lucky_transport.process import ChildProcess, EngineProcess, python_command, unique_name
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import Effort, Measurement
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import Case, Cell

_CLIENT = "lucky_transport_migration.bench.stubs.client"
_ENGINE = "mujoco:quadruped"
_TRAINING = str(Path(__file__).with_name("training_program.py"))
_ECHO = str(Path(__file__).with_name("echo_program.py"))
_USUAL_PORT = "50051"
_PATIENCE_S = 90.0
_LAST_LINES = 12
_READY_S = 60.0  # a server imports grpc or luckyrobots first, perhaps on a busy machine
_GRACE_S = 10.0
#: A whole program measures so many times the budget: it warms up by itself, a training loop with its policy too.
_PARTS = 4

#: What was measured, or why it could not be.
Outcome = dict[Cell, Measured] | TransportError


@dataclass(frozen=True, slots=True)
class Job:
    """A case to be measured, and how; `options` are those of the plan."""

    case: Case
    effort: Effort
    options: dict[str, Any]


def measure_pair(job: Job) -> dict[Cell, Measured]:
    """Return the measurements of the job's cells; its processes have ended when this returns.

    Raises MissingExtra, NotReachable when a process failed, RemoteProtocolError when an answer or item is not the one
    that was due, PeerTimeout when the pair takes far longer than it should.
    """
    done = program(python_command(_CLIENT), job, stdin=pickle.dumps(job))
    outcome: Outcome = pickle.loads(done)
    if isinstance(outcome, TransportError):
        raise outcome
    return outcome


def program(command: list[str], job: Job, stdin: bytes = b"") -> bytes:
    """Run a client program of the job's case to its end and return what it wrote to stdout.

    Raises NotReachable with its last words when it fails, PeerTimeout when it takes far longer than it should.
    """
    limit_s, command = _PATIENCE_S + 100 * job.effort.budget_s, [*_environment(job), *command]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise PeerTimeout(f"{job.case}: the client did not end within {limit_s:.0f} s") from error
    if done.returncode:
        words = "\n  ".join(done.stderr.decode(errors="replace").splitlines()[-_LAST_LINES:])
        raise NotReachable(f"{job.case}: the client failed with exit status {done.returncode}\n  {words}")
    return done.stdout


def _environment(job: Job) -> list[str]:
    """Return what stands before the command of a process of this job."""
    return ["env", f"LUCKY_WAIT={job.case.wait}"] if job.case.wait else []


class ReadyServer(NamedTuple):
    """A running server program, and the target of its clients."""

    pid: int
    target: str


@contextmanager
def serving(what: str, command: Sequence[str]) -> Generator[ReadyServer]:
    """Run a server program: it writes its target into the file it is given last, and ends with its stdin.

    It has ended after the block. Raises NotReachable when it ends before it is ready, or is not ready after a minute.
    """
    with tempfile.NamedTemporaryFile("r", prefix="lucky_bench_") as ready:
        server = ChildProcess(f"the server {what}", [*command, ready.name], reads_stdin=True)

        def is_ready(within_s: float) -> bool:
            time.sleep(within_s)
            return os.path.getsize(ready.name) > 0

        try:
            server.await_ready(is_ready, Deadline(_READY_S), late="a busy machine needs longer: run it again")
            yield ReadyServer(server.pid, ready.read())
        finally:
            server.stop(_GRACE_S)


def why_no_luckyenv() -> str | None:
    """Return why there can be no training loop on this machine, None when there can."""
    why = import_problem("mujoco") or import_problem("luckyrobots")
    return f"no LuckyEnv training loop: {why}" if why else None


def measure_luckyenv(job: Job) -> StreamMeasurement:
    """Return the steps of a luckyrobots training loop; engine and program have ended when this returns.

    Raises NotReachable when either fails, or calls went over gRPC that shared memory should have carried.
    """
    shm = job.case.path == "shm"
    endpoint = f"shm://{unique_name()}" if shm else "grpc://127.0.0.1:0"
    engine = EngineProcess(_ENGINE, [endpoint], wait=job.case.wait)
    try:
        # Over shm the program's port has no server.
        port = _USUAL_PORT if shm else engine.endpoints[0].address.rpartition(":")[2]
        found = _measured(job, ["--endpoint", str(engine.endpoints[0])], [_TRAINING, port])
        return StreamMeasurement(found["n"], found["took_ns"], found["cpu_ns"], looked_at="its frame number")
    finally:
        engine.stop()


def measure_echo(job: Job) -> Measurement:
    """Return the calls of a client of a gRPC server; both are unmodified programs, and have ended when this returns.

    Raises NotReachable when either fails, or calls went over gRPC that shared memory should have carried.
    """
    switch = ["--map", f"127.0.0.1:*=shm://{unique_name()}_{{port}}"]
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        launcher = _launcher(job, switch, Path(directory) / "server.json")
        server = [*_environment(job), *launcher, sys.executable, _ECHO, "serve"]
        with serving(f"over {job.case.path}", server) as running:
            found = _measured(job, switch, [_ECHO, "call", running.target])
            samples, warmup = (np.array(found[part], np.int64) for part in ("samples_ns", "warmup_ns"))
            return Measurement(samples, warmup, found["cpu_ns"], None, looked_at="all of it")


def _measured(job: Job, switch: list[str], script: list[str]) -> dict[str, Any]:
    """Return the result of a client: a script that takes the seconds and the file of its result last."""
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        result, report = Path(directory) / "result.json", Path(directory) / "calls.json"
        seconds = str(_PARTS * job.effort.budget_s)
        program([*_launcher(job, switch, report), sys.executable, *script, seconds, str(result)], job)
        found = json.loads(result.read_text(encoding="utf-8"))
        if job.case.path == "shm":
            _check_switched(json.loads(report.read_text(encoding="utf-8"))["calls"])
    return found


def _launcher(job: Job, switch: list[str], report: Path) -> list[str]:
    """Return what stands before a program: over shm `lucky-transport run`, which counts its calls as for any user."""
    if job.case.path != "shm":
        return []
    run = python_command("lucky_transport", "run", "--transport", "shm", "--quiet", "--report", str(report))
    return [*run, *switch, "--"]


def _check_switched(calls: list[dict[str, Any]]) -> None:
    """Raise NotReachable when calls of a program went over gRPC: what was measured is not shared memory then."""
    left = [f"{call['method']} ({call['why']})" for call in calls if not call["endpoint"] and call["count"]]
    if left or not calls:
        raise NotReachable(f"the program was not switched; over gRPC: {', '.join(left) or 'everything'}")
