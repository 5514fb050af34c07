"""A luckyrobots training loop before and after: the same program against gRPC, and under `lucky-transport run`."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from lucky_transport.endpoint import Endpoint
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.suites.stubs import TRAINING_PARTS
from lucky_transport_migration.bench.workloads.stubs.pair import Job, program

__all__ = ["measure_training", "why_no_training"]

_ENGINE = "mujoco:quadruped"
_SCRIPT = Path(__file__).with_name("training_program.py")
_USUAL_PORT = "50051"
_IMPORT_TIMEOUT_S = 60.0


def why_no_training() -> str | None:
    """Return why there can be no training loop on this machine, None when there can."""
    for package in ("mujoco", "luckyrobots"):
        if importlib.util.find_spec(package) is None:
            return f"no LuckyEnv training loop: {package} is not installed"
    done = subprocess.run(
        [sys.executable, "-c", "import luckyrobots"], capture_output=True, timeout=_IMPORT_TIMEOUT_S, text=True
    )
    if done.returncode:  # its generated code refuses older protobuf and grpcio
        return f"no LuckyEnv training loop: luckyrobots cannot be imported: {done.stderr.strip().splitlines()[-1]}"
    return None


def measure_training(job: Job) -> StreamMeasurement:
    """Return the steps of one run of the program; engine and program have ended when this returns.

    Raises NotReachable when either fails.
    """
    shm = job.setup.path == "shm"
    endpoint = f"shm://{unique_name()}" if shm else "grpc://127.0.0.1:0"
    engine = EngineProcess(_ENGINE, [endpoint], wait=job.setup.wait)
    try:
        with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
            result = Path(directory) / "result.json"
            program(_command(job, engine.endpoints[0], result), job)
            found = json.loads(result.read_text(encoding="utf-8"))
    finally:
        engine.stop()
    return StreamMeasurement(found["steps"], found["took_ns"], found["cpu_ns"])


def _command(job: Job, served: Endpoint, result: Path) -> list[str]:
    """Return the program's command line, over shm under the launcher; then its port has no server."""
    seconds = str(TRAINING_PARTS * job.effort.budget_s)
    if served.scheme == "shm":
        launcher = [sys.executable, "-m", "lucky_transport", "run", "--transport", "shm", "--endpoint", str(served)]
        return [*launcher, "--", sys.executable, str(_SCRIPT), _USUAL_PORT, seconds, str(result)]
    port = served.address.rpartition(":")[2]
    return [sys.executable, str(_SCRIPT), port, seconds, str(result)]
