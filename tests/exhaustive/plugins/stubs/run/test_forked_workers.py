"""Calls of forked workers are recorded, and compared, to the end of each worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.recording.entries import RecordedCall
from lucky_transport_migration.recording.reading import Recording
from tests.exhaustive.plugins.stubs.run.test_recorded_run import CLI, run, served
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

#: How a program starts its worker. It has used no connection before, or one of its own.
_STARTS = {
    "multiprocessing": "import multiprocessing\nworker = multiprocessing.get_context('fork').Process(target=work)\n"
    "worker.start()\nworker.join()\nassert worker.exitcode == 0\n",
    "fork": "import os\nif (pid := os.fork()) == 0:\n    work()\n    sys.exit()\nassert os.waitpid(pid, 0)[1] == 0\n",
}
_STUBS = """
import sys
sys.path.insert(0, sys.argv[2])

def work():
    import grpc, weather_pb2, weather_pb2_grpc
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stub = weather_pb2_grpc.WeatherStub(channel)
        for number in range(20):
            stub.GetForecast(weather_pb2.ForecastRequest(station="Oslo", days=1 + number % 5), timeout=50)

if sys.argv[3] == "before":
    import os
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "1"
    work()
"""
_TYPED = """
import sys
import lucky_transport

kept = []

def work():
    kept.append(lucky_transport.connect())
    for _ in range(20):
        kept[-1].scene.list_entities()

if sys.argv[1] == "before":
    work()
"""


@pytest.mark.parametrize("before", ["before", "never"])
@pytest.mark.parametrize("start", _STARTS)
def test_a_worker_with_stubs_is_recorded(weather: WeatherPrograms, tmp_path: Path, start: str, before: str) -> None:
    file, shm, program = tmp_path / "run.jsonl", f"shm://{unique_name()}", tmp_path / "program.py"
    program.write_text(_STUBS + _STARTS[start])
    with served(weather, shm) as target:
        under = ["run", "--transport", "shm", "--map", f"{target}={shm}", "--record", str(file), "--"]
        run(*under, sys.executable, str(program), target, str(weather.folder), before)
    assert _numbers(tmp_path) == [20] * (1 + (before == "before"))


@pytest.mark.parametrize("start", _STARTS)
def test_a_worker_of_a_staged_program_leaves_evidence(weather: WeatherPrograms, tmp_path: Path, start: str) -> None:
    shm, program = f"shm://{unique_name()}", tmp_path / "program.py"
    stages = '[stages.methods]\n"/weather.v1.Weather/*" = "shadow"\n[stages.effects]\n"Weather/GetForecast" = "read"\n'
    (tmp_path / "lucky_transport.toml").write_text(stages)
    program.write_text(_STUBS + _STARTS[start])
    with served(weather, shm) as target:
        command = [
            *CLI,
            "run",
            "--transport",
            "staged",
            "--map",
            f"{target}={shm}",
            "--",
            sys.executable,
            str(program),
        ]
        subprocess.run([*command, target, str(weather.folder), "never"], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    seen = list(read_folder(tmp_path / "lucky-evidence"))
    assert len(seen) == 20
    assert {one.verdict for one in seen} == {"equal"}


@pytest.mark.parametrize("before", ["before", "never"])
@pytest.mark.parametrize("start", _STARTS)
def test_a_worker_that_connects_is_recorded(tmp_path: Path, start: str, before: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(_TYPED + _STARTS[start])
    with lucky_transport.serve("toy", f"shm://{unique_name()}", num_envs=1) as serving:
        variables = {"LUCKY_ENDPOINT": str(serving.endpoints[0]), "LUCKY_RECORD": str(tmp_path / "run.jsonl")}
        command = [sys.executable, str(program), before]
        subprocess.run(command, check=True, timeout=PATIENCE_S, env=os.environ | variables)
    assert _numbers(tmp_path) == [20] * (1 + (before == "before"))


def _numbers(folder: Path) -> list[int]:
    """Return how many calls each process has recorded."""
    files = sorted(folder.glob("run*.jsonl"))
    return [sum(isinstance(one, RecordedCall) for one in Recording(file).entries()) for file in files]
