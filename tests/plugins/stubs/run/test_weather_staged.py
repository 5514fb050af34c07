"""Reads of a team's own service get shadows under the launcher: declared ones alone, compared field by field."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.support.waiting import PATIENCE_S
from tests.support.weather import SERVICE, WeatherPrograms

pytest.importorskip("grpc")
pytest.importorskip("tomlkit", reason="needs pip install 'lucky-transport[scan]'")

_CLI = [sys.executable, "-m", "lucky_transport"]
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


@contextmanager
def served(weather: WeatherPrograms, *options: str) -> Iterator[tuple[str, str]]:
    """Serve at a port and in shared memory; gives the target, and the pair for --map."""
    endpoint = f"shm://{unique_name()}"
    serving = [*_CLI, "run", "--transport", "shm", "--serve", f"127.0.0.1:*={endpoint}", "--"]
    with subprocess.Popen([*serving, *weather.server(0, *options)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            target = f"127.0.0.1:{server.stdout.readline().split()[-1]}"
            yield target, f"{target}={endpoint}"
        finally:
            server.terminate()


def run_staged(weather: WeatherPrograms, folder: Path, served_at: tuple[str, str], calls: str, rows: str = "") -> None:
    """Run a client that makes `calls` in `folder`, with every method at `shadow`. rows: more of its file of stages."""
    target, pair = served_at
    (folder / "lucky_transport.toml").write_text(f'[stages]\ndefault = "shadow"\n{rows}')
    program = f"{_CLIENT}{calls}" if calls is not _BYTES else f"{_BARE}{calls}"
    client = [sys.executable, "-c", program, target, str(weather.folder)]
    command = [*_CLI, "run", "--transport", "staged", "--map", pair, "--", *client]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def evidence(folder: Path) -> list[dict[str, Any]]:
    """Return what was seen, by the order in which it was written."""
    files = (folder / "lucky-evidence").glob("calls-*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def shown(folder: Path, *arguments: str) -> str:
    """Return what a command prints about `folder`, without the program and its modules."""
    command = [*_CLI, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout


def verdicts(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((one["method"].rpartition("/")[2], one["verdict"]) for one in evidence(folder))


def test_declared_reads_are_asked_twice_and_compared(weather: WeatherPrograms, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with served(weather, "--calls", str(calls)) as where:
        run_staged(weather, tmp_path, where, _READS, _EFFECTS)
    assert verdicts(tmp_path) == {("GetForecast", "equal"): 6, ("WatchForecast", "equal"): 4}
    came = Counter(calls.read_text().split())
    assert came["GetForecast"] >= 12  # more where a shadow was late
    assert came["WatchForecast"] >= 8
    for one in evidence(tmp_path):
        assert one["left_out"] == ["that it changes nothing"]
        assert (one["shadow"]["transport"], one["shadow"]["code"]) == ("shm", one["authority"]["code"])
        assert min(one["shadow"]["us"], one["authority"]["us"]) > 0


def test_no_other_method_is_asked_twice(weather: WeatherPrograms, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with served(weather, "--calls", str(calls)) as where:
        run_staged(weather, tmp_path, where, f"{_READS}{_CHANGES}")
    came = Counter(calls.read_text().split())
    del came["GetForecast"]
    assert came == {"WatchForecast": 4, "SetStation": 1, "PutStation": 1, "Report": 1, "Chat": 1}
    whys = {one["why"] for one in evidence(tmp_path) if one["method"].endswith("WatchForecast")}
    assert len(whys) == 1
    assert '[stages.effects] ("Service/Method" = "read")' in whys.pop()


def test_what_was_seen_is_known_by_name_and_effect_without_the_program(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    with served(weather) as where:
        run_staged(weather, tmp_path, where, _READS, _EFFECTS)
    rows = json.loads(shown(tmp_path, "stage", "show", "Weather/*", "--json"))["methods"]
    assert {row["method"].rpartition("/")[2]: row["effect"] for row in rows} == {
        "Chat": "world",
        "GetForecast": "read",
        "PutStation": "idempotent",
        "Report": "world",
        "SetStation": "world",
        "WatchForecast": "read",
    }
    assert {row["method"]: row["seen"] for row in rows}[f"/{SERVICE}/GetForecast"] == {"equal": 6}


@pytest.mark.parametrize(
    ("fault", "method", "aspect", "where"),
    [
        ("value", "GetForecast", "item", "reading.temperature"),
        ("default", "GetForecast", "item", "chance"),
        ("trailing", "GetForecast", "trailing", "weather-days"),
        ("details", "GetForecast", "details", ""),
        ("order", "WatchForecast", "item", "[0].issued_ns"),
        ("dropped", "WatchForecast", "count", ""),
    ],
)
def test_a_difference_is_named_and_sends_its_method_back(
    weather: WeatherPrograms, tmp_path: Path, fault: str, method: str, aspect: str, where: str
) -> None:
    with served(weather, "--fault", fault) as served_at:
        run_staged(weather, tmp_path, served_at, _READS, _EFFECTS)
    [found, *_] = [
        one for one in evidence(tmp_path) if one["verdict"] == "different" and one["method"].endswith(method)
    ]
    assert (found["aspect"], where in found["where"]) == (aspect, True), found
    assert f"{SERVICE}/{method}" in (tmp_path / "lucky-evidence" / "demotions.jsonl").read_text()


def test_a_program_without_generated_modules_is_compared_by_what_was_registered(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[stages]\n")
    shown(tmp_path, "stage", "register", str(weather.descriptor_set))
    with served(weather, "--fault", "value") as served_at:
        run_staged(weather, tmp_path, served_at, _BYTES)
    [found, *_] = evidence(tmp_path)
    assert (found["verdict"], found["aspect"], found["where"]) == ("different", "item", "reading.temperature")
    assert found["values"] == {"grpc": 0.0, "shm": 1.0}
