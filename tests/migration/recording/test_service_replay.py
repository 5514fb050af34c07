"""Calls of a team's own service, recorded from its program and made again at another server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

_CLI = [sys.executable, "-m", "lucky_transport"]
_EFFECTS = "[stages.effects]\n" + "".join(f'"Weather/{name}" = "read"\n' for name in ("Watch*", "Report", "Chat"))

#: A program of the team that makes calls of every arity, those that change the world first. It ends with its last
#: stream.
_ASKER = """
import sys
import grpc
sys.path.insert(0, sys.argv[2])
import weather_pb2, weather_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = weather_pb2_grpc.WeatherStub(channel)
    stub.SetStation(weather_pb2.Station(name="Oslo", offset=0.5))
    stub.PutStation(weather_pb2.Station(name="Rome", offset=2))
    like = weather_pb2.Reading(temperature=1.5, counts={"rounds": 3}, notes=["a"], station="Oslo")
    request = weather_pb2.ForecastRequest(station="Oslo", days=3, like=like)
    stub.GetForecast(request)
    try:
        stub.GetForecast(weather_pb2.ForecastRequest(station="nowhere"))
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.NOT_FOUND
    assert len(list(stub.WatchForecast(request))) == 3
    assert stub.Report(weather_pb2.Reading(temperature=one) for one in range(4)).readings == 4
    assert len(list(stub.Chat(weather_pb2.Line(text="hello", number=one) for one in range(3)))) == 3
"""


@contextmanager
def _served(weather: WeatherPrograms, *options: str, shm: str) -> Iterator[str]:
    """Serve a fresh server over gRPC and in shared memory; gives its gRPC target."""
    command = [*_CLI, "run", "--transport", "shm", "--serve", f"127.0.0.1:*={shm}", "--", *weather.server(0, *options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{server.stdout.readline().split()[-1]}"
        finally:
            server.terminate()


def _record(weather: WeatherPrograms, folder: Path, stage: str) -> Path:
    """Record the program, with all methods at a stage."""
    stages = f'[stages.methods]\n"/weather.v1.Weather/*" = "{stage}"\n'
    (folder / "lucky_transport.toml").write_text(stages + _EFFECTS)
    (folder / "asker.py").write_text(_ASKER)
    shm = f"shm://{unique_name()}"
    file = folder / "run.jsonl.gz"
    with _served(weather, shm=shm) as target:
        under = [*_CLI, "run", "--transport", "staged", "--map", f"{target}={shm}", "--"]
        command = [*_CLI, "record", shm, "--out", str(file), "--", *under]
        client = [sys.executable, str(folder / "asker.py"), target, str(weather.folder)]
        done = subprocess.run(
            [*command, *client], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return file


@pytest.fixture(scope="module", params=["grpc", "complete"])
def recorded(
    request: pytest.FixtureRequest, weather: WeatherPrograms, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The transport that answered, and the recording."""
    transport = {"grpc": "grpc", "complete": "shm"}[request.param]
    return transport, _record(weather, tmp_path_factory.mktemp("recorded"), request.param)


def _replayed(file: Path, endpoint: str, *, code: int) -> dict[str, Any]:
    done = subprocess.run(
        [*_CLI, "replay", str(file), endpoint, "--json"],
        cwd=file.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("over", ["grpc", "shm"])
def test_a_recording_replays_equal_over_both_transports(
    recorded: tuple[str, Path], weather: WeatherPrograms, over: str
) -> None:
    _, file = recorded
    shm = f"shm://{unique_name()}"
    with _served(weather, shm=shm) as target:
        found = _replayed(file, shm if over == "shm" else f"grpc://{target}", code=0)
    assert found["equal"] is True
    assert (found["calls"], found["compared"]) == (7, 7)
    assert {"status", "details", "items", "headers", "trailing metadata"} <= set(found["aspects"])
    assert "metadata of calls" not in {row["what"] for row in found["left_out"]}
    assert len(found["methods"]) == 6


@pytest.mark.parametrize(
    ("fault", "aspect", "where"),
    [
        ("value", "item", r"call 3: (item 0: )?.*reading\.temperature"),
        ("int64", "item", "call 3: "),
        ("map", "item", "call 3: "),
        ("initial", "headers", "call 1: weather-version"),
        ("trailing", "trailing", "call 3: weather-days"),
        ("dropped", "count", r"call \d: items"),
        ("status", "code", "call 4: code"),
        ("details", "details", "call 4: details"),
    ],
)
def test_a_planted_difference_is_named_with_call_and_request(
    recorded: tuple[str, Path], weather: WeatherPrograms, fault: str, aspect: str, where: str
) -> None:
    transport, file = recorded
    shm = f"shm://{unique_name()}"
    with _served(weather, "--fault", fault, shm=shm) as target:
        assert target
        found = _replayed(file, shm, code=1)  # a fault is planted in what goes over shared memory
    first = found["first_difference"]
    assert first["aspect"] == aspect, first
    assert re.match(where, first["where"]), first
    was, now = (first["values"][name] for name in (("grpc", "shm") if transport == "grpc" else ("shm", "shm again")))
    assert was != now
    assert '"Oslo"' in first["values"]["request"] or '"nowhere"' in first["values"]["request"]


def test_a_server_that_is_gone_is_a_difference(recorded: tuple[str, Path], weather: WeatherPrograms) -> None:
    transport, file = recorded
    shm = f"shm://{unique_name()}"
    with _served(weather, shm=shm) as target:
        pass
    found = _replayed(file, f"grpc://{target}", code=1)
    assert found["calls"] == 1, transport
    assert found["first_difference"]["aspect"] == "code"
