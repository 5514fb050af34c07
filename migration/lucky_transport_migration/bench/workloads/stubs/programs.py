"""Whole programs before and after: the same program against gRPC, and unmodified under `lucky-transport run`."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lucky_transport.errors import NotReachable
from lucky_transport.process import EngineProcess, python_command, unique_name
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.processes import serving
from lucky_transport_migration.bench.workloads.stubs.pair import Job, environment, program

_ENGINE = "mujoco:quadruped"
_TRAINING = str(Path(__file__).with_name("training_program.py"))
_ECHO = str(Path(__file__).with_name("echo_program.py"))
_USUAL_PORT = "50051"
_IMPORT_TIMEOUT_S = 60.0
#: A whole program measures so many times the budget: it warms up by itself, a training loop with its policy too.
_PARTS = 4


def why_no_luckyenv() -> str | None:
    """Return why there can be no training loop on this machine, None when there can."""
    for package in ("mujoco", "luckyrobots"):
        if importlib.util.find_spec(package) is None:
            return f"no LuckyEnv training loop: {package} is not installed"
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import luckyrobots"], capture_output=True, timeout=_IMPORT_TIMEOUT_S, text=True
    )
    if done.returncode:  # its generated code refuses older protobuf and grpcio
        return f"no LuckyEnv training loop: luckyrobots cannot be imported: {done.stderr.strip().splitlines()[-1]}"
    return None


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
        return _measure(job, ["--endpoint", str(engine.endpoints[0])], [_TRAINING, port], "its frame number")
    finally:
        engine.stop()


def measure_echo(job: Job) -> StreamMeasurement:
    """Return the calls of a client of a gRPC server; both are unmodified programs, and have ended when this returns.

    Raises NotReachable when either fails, or calls went over gRPC that shared memory should have carried.
    """
    switch = ["--map", f"127.0.0.1:*=shm://{unique_name()}_{{port}}"]
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        launcher = _launcher(job, switch, Path(directory) / "server.json")
        server = [*environment(job), *launcher, sys.executable, _ECHO, "serve"]
        with serving(f"over {job.case.path}", server) as running:
            return _measure(job, switch, [_ECHO, "call", running.ready], "all of it")


def _measure(job: Job, switch: list[str], script: list[str], looked_at: str) -> StreamMeasurement:
    """Run a client to its end: a script that takes the seconds and the file of its result last.

    The script ends with an error unless `looked_at` is right in each answer.
    """
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        result, report = Path(directory) / "result.json", Path(directory) / "calls.json"
        seconds = str(_PARTS * job.effort.budget_s)
        program([*_launcher(job, switch, report), sys.executable, *script, seconds, str(result)], job)
        found = json.loads(result.read_text(encoding="utf-8"))
        if job.case.path == "shm":
            _check_switched(json.loads(report.read_text(encoding="utf-8"))["calls"])
    return StreamMeasurement(found["n"], found["took_ns"], found["cpu_ns"], looked_at=looked_at)


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
