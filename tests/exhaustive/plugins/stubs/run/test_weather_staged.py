"""Reads of a team's own service get shadows where it is switched: declared ones alone, compared field by field.

How the launcher switches a program to stages is tested by test_staged_run.py.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.support.command_line import CommandLine
from tests.support.forked_programs import Program
from tests.support.waiting import PATIENCE_S
from tests.support.weather import SERVICE, WeatherPrograms

pytest.importorskip("grpc")
pytest.importorskip("tomlkit", reason="needs pip install 'lucky-transport[scan]'")

_EFFECTS = '[stages.effects]\n"Weather/Watch*" = "read"\n'

_READS = """
    request = weather_pb2.ForecastRequest(station="Oslo", days=3)
    for _ in range(4):
        stub.GetForecast(request)
        assert len(list(stub.WatchForecast(request))) == 3
    for station in ("nowhere", "Oslo"):
        try:
            stub.GetForecast(weather_pb2.ForecastRequest(station=station, days=99))
        except grpc.RpcError as error:
            assert error.details()
"""
_CHANGES = """
    stub.SetStation(weather_pb2.Station(name="Oslo", offset=1.0))
    stub.PutStation(weather_pb2.Station(name="Oslo", offset=1.0))
    stub.Report(weather_pb2.Reading(temperature=one) for one in range(3))
    assert len(list(stub.Chat(weather_pb2.Line(number=one) for one in range(3)))) == 3
"""
_CLIENT = """
import sys
import grpc
sys.path.insert(0, sys.argv[2])
import weather_pb2
import weather_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = weather_pb2_grpc.WeatherStub(channel)
"""


#: Serves with these options, at a port and in shared memory; gives the target, and the pair for --map.
Served = Callable[..., AbstractContextManager[tuple[str, str]]]
#: Runs a client that makes these calls in the test's folder, with every method at `shadow`; more of its file of stages.
RunStaged = Callable[..., None]

#: A program that has no generated modules.
_BARE = """
import sys
import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
"""
_BYTES = """
    for _ in range(2):
        assert channel.unary_unary("/weather.v1.Weather/GetForecast")(b"")
"""


@pytest.fixture
def served(start_switched: Callable[..., Program], weather: WeatherPrograms) -> Served:
    @contextmanager
    def serve(*options: str) -> Iterator[tuple[str, str]]:
        endpoint = f"shm://{unique_name()}"
        _, *command = weather.server(0, *options)
        server = start_switched("--transport", "shm", "--serve", f"127.0.0.1:*={endpoint}", command=command)
        try:
            target = f"127.0.0.1:{server.stdout.readline().split()[-1]}"
            yield target, f"{target}={endpoint}"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)

    return serve


@pytest.fixture
def run_staged(
    run_switched: Callable[..., subprocess.CompletedProcess[str]],
    weather: WeatherPrograms,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> RunStaged:
    monkeypatch.chdir(tmp_path)

    def run(served_at: tuple[str, str], calls: str, rows: str = "") -> None:
        target, pair = served_at
        (tmp_path / "lucky_transport.toml").write_text(f'[stages]\ndefault = "shadow"\n{rows}')
        program = f"{_CLIENT}{calls}" if calls is not _BYTES else f"{_BARE}{calls}"
        command = ["-c", program, target, str(weather.folder)]
        done = run_switched("--transport", "staged", "--map", pair, command=command)
        assert done.returncode == 0, done.stderr

    return run


def evidence(folder: Path) -> list[dict[str, Any]]:
    """Return what was seen, by the order in which it was written."""
    files = (folder / "lucky-evidence").glob("calls-*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def shown(line: CommandLine, *arguments: str) -> str:
    """Return what a command prints about its folder, without the program and its modules."""
    done = line.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def verdicts(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((one["method"].rpartition("/")[2], one["verdict"]) for one in evidence(folder))


def test_declared_reads_are_asked_twice_and_compared(served: Served, run_staged: RunStaged, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with served("--calls", str(calls)) as where:
        run_staged(where, _READS, _EFFECTS)
    assert verdicts(tmp_path) == {("GetForecast", "equal"): 6, ("WatchForecast", "equal"): 4}
    came = Counter(calls.read_text().split())
    assert came["GetForecast"] >= 12  # more where a shadow was late
    assert came["WatchForecast"] >= 8
    for one in evidence(tmp_path):
        assert list(one["left_out"]) == ["that it changes nothing"]
        assert (one["shadow"]["transport"], one["shadow"]["code"]) == ("shm", one["authority"]["code"])
        assert min(one["shadow"]["us"], one["authority"]["us"]) > 0


def test_no_other_method_is_asked_twice(served: Served, run_staged: RunStaged, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with served("--calls", str(calls)) as where:
        run_staged(where, f"{_READS}{_CHANGES}")
    came = Counter(calls.read_text().split())
    del came["GetForecast"]
    assert came == {"WatchForecast": 4, "SetStation": 1, "PutStation": 1, "Report": 1, "Chat": 1}
    whys = {one["why"] for one in evidence(tmp_path) if one["method"].endswith("WatchForecast")}
    assert len(whys) == 1
    assert whys.pop() == "nothing says that it is a read, so it is not made twice"


def test_what_was_seen_is_known_by_name_and_effect_without_the_program(
    served: Served, run_staged: RunStaged, forked_line: CommandLine
) -> None:
    with served() as where:
        run_staged(where, _READS, _EFFECTS)
    rows = json.loads(shown(forked_line, "stage", "show", "Weather/*", "--json"))["methods"]
    assert {row["method"].rpartition("/")[2]: row["effect"] for row in rows} == {
        "Chat": "world",
        "GetForecast": "read",
        "PutStation": "idempotent",
        "Report": "world",
        "SetStation": "world",
        "WatchForecast": "read",
    }
    assert {row["method"]: row["seen"] for row in rows}[f"/{SERVICE}/GetForecast"] == {"equal": 6}


def test_a_difference_is_named_and_sends_its_method_back(served: Served, run_staged: RunStaged, tmp_path: Path) -> None:
    with served("--fault", "value") as served_at:
        run_staged(served_at, _READS, _EFFECTS)
    [found, *_] = [one for one in evidence(tmp_path) if one["verdict"] == "different"]
    assert (found["aspect"], found["where"]) == ("item", "reading.temperature")
    demotions = (tmp_path / "lucky-evidence" / "demotions.jsonl").read_text()
    assert all(f"{SERVICE}/{method}" in demotions for method in ("GetForecast", "WatchForecast"))


def test_a_program_without_generated_modules_is_compared_by_what_was_registered(
    served: Served, run_staged: RunStaged, forked_line: CommandLine, weather: WeatherPrograms, tmp_path: Path
) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[stages]\n")
    shown(forked_line, "stage", "register", str(weather.descriptor_set))
    with served("--fault", "value") as served_at:
        run_staged(served_at, _BYTES)
    [found, *_] = evidence(tmp_path)
    assert (found["verdict"], found["aspect"], found["where"]) == ("different", "item", "reading.temperature")
    assert found["values"] == {"grpc": 0.0, "shm": 1.0}
