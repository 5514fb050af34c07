"""`run --record`: every call of a program and of its forked workers, over the transport that it has."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport_migration.recording.entries import RecordedCall, Recording
from tests.exhaustive.plugins.stubs.run.conftest import Served
from tests.support.fixtures.migration_evidence import rows_in
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

CLI = [sys.executable, "-m", "lucky_transport"]
_CALLS = {"GetForecast": 2, "WatchForecast": 1, "SetStation": 1, "PutStation": 1, "Report": 1, "Chat": 1}

#: The same with grpc.aio, one call of each kind.
_AIO = """
import asyncio, sys
import grpc
sys.path.insert(0, sys.argv[2])
import weather_pb2, weather_pb2_grpc

async def main():
    async with grpc.aio.insecure_channel(sys.argv[1]) as channel:
        stub = weather_pb2_grpc.WeatherStub(channel)
        request = weather_pb2.ForecastRequest(station="Oslo", days=3)
        await stub.GetForecast(request, metadata=(("team", "weather"),), timeout=50)
        assert len([one async for one in stub.WatchForecast(request)]) == 3
        lines = iter([weather_pb2.Line(text="a"), weather_pb2.Line(text="b")])
        assert len([one async for one in stub.Chat(lines)]) == 2

asyncio.run(main())
"""


def run(*command: str, code: int = 0, cwd: Path | None = None) -> str:
    done = subprocess.run([*CLI, *command], capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _under(transport: str, pair: str) -> list[str]:
    return ["run", "--transport", transport, *(["--map", pair] if transport == "shm" else [])]


def _calls(file: Path) -> list[RecordedCall]:
    return [one for one in Recording(file).entries() if isinstance(one, RecordedCall)]


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_every_call_is_recorded_counted_and_made_again(
    weather: WeatherPrograms, served: Served, tmp_path: Path, transport: str
) -> None:
    file, report = tmp_path / "run.jsonl.gz", tmp_path / "calls.json"
    with served() as (target, pair):
        command = [*_under(transport, pair), "--record", str(file), "--report", str(report)]
        said = run(*command, "--", *weather.client(target, "--rounds", "2"))
    assert "weather total" in said
    calls = _calls(file)
    assert Counter(one.call.rpartition("/")[2] for one in calls) == {name: 2 * count for name, count in _CALLS.items()}
    assert {one.transport for one in calls} == {transport}
    assert not any(one.unfinished or one.moved for one in calls)
    counted = json.loads(report.read_text())["calls"]
    assert sum(one["count"] for one in counted) == len(calls)
    with served() as (target, pair):
        other = {"grpc": pair.partition("=")[2], "shm": f"grpc://{target}"}[transport]
        assert "EQUAL: 14 of 14" in run("replay", str(file), other)


@pytest.fixture
def recorded(weather: WeatherPrograms, served: Served, tmp_path: Path) -> Callable[..., Path]:
    """Record a program whose calls go over shared memory; returns the recording."""

    def record(program: str, *arguments: str) -> Path:
        file = tmp_path / "run.jsonl"
        with served() as (target, pair):
            command = [sys.executable, "-c", program, target, str(weather.folder), *arguments]
            run(*_under("shm", pair), "--record", str(file), "--", *command)
        return file

    return record


def test_a_program_of_asyncio_is_recorded_with_metadata_and_deadline(recorded: Callable[..., Path]) -> None:
    get, watch, chat = _calls(recorded(_AIO))
    assert (get.arity, get.metadata, get.timeout_s) == ("unary_unary", (("team", "weather"),), pytest.approx(50, abs=1))
    assert (watch.arity, len(watch.items), watch.code) == ("unary_stream", 3, "OK")
    assert (chat.arity, len(chat.requests), len(chat.items)) == ("stream_stream", 2, 2)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("mine")
    said = run("run", "--transport", "grpc", "--record", str(file), "--", sys.executable, "-c", "", code=1)
    assert "is there already" in said
    assert file.read_text() == "mine"


def test_our_own_clients_are_not_recorded_twice(tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "run.jsonl"
    program.write_text(
        "import grpc, lucky_transport\n"
        'with lucky_transport.serve("toy", "grpc://127.0.0.1:0", num_envs=1) as serving:\n'
        "    with lucky_transport.connect(str(serving.endpoints[0])) as client:\n"
        "        client.scene.list_entities()\n"
    )
    run("run", "--transport", "grpc", "--record", str(file), "--", sys.executable, str(program))
    assert [path.name for path in tmp_path.glob("run*.jsonl")] == ["run.jsonl"]
    assert [one.call.rpartition("/")[2] for one in _calls(file)] == ["ListEntities"]


def test_a_program_that_calls_nothing_is_told_that_nothing_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    said = run("run", "--transport", "grpc", "--report", "-", "--record", str(file), "--", sys.executable, "-c", "")
    assert f"{file} was not written: no channel made a call; record the client, not its server" in said


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
def test_a_worker_with_stubs_is_recorded(
    recorded: Callable[..., Path], tmp_path: Path, start: str, before: str
) -> None:
    recorded(_STUBS + _STARTS[start], before)
    assert _numbers(tmp_path) == [20] * (1 + (before == "before"))


@pytest.mark.parametrize("start", _STARTS)
def test_a_worker_of_a_staged_program_leaves_evidence(
    weather: WeatherPrograms, served: Served, tmp_path: Path, start: str
) -> None:
    stages = '[stages.methods]\n"/weather.v1.Weather/*" = "shadow"\n[stages.effects]\n"Weather/GetForecast" = "read"\n'
    (tmp_path / "lucky_transport.toml").write_text(stages)
    with served() as (target, pair):
        command = [sys.executable, "-c", _STUBS + _STARTS[start], target, str(weather.folder), "never"]
        run("run", "--transport", "staged", "--map", pair, "--", *command, cwd=tmp_path)
    seen = rows_in(tmp_path / "lucky-evidence")
    assert len(seen) == 20
    assert {one["verdict"] for one in seen} == {"equal"}


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
    return [len(_calls(file)) for file in sorted(folder.glob("run*.jsonl"))]
