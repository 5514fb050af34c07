"""Calls of a team's own service, recorded from its program and made again at another server.

What is recorded is started as a team starts it. Servers and replays are forks of a Python that has imported what they
import; a server is switched as `run --serve` switches it. Options of a program's channel that decide how its calls end
are recorded, and its calls made again with them.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand
from lucky_transport_migration.recording.entries import RecordedCall, Recording, line_of
from tests.exhaustive.planted.test_answers_by_tool import PLANTS, ROOT, described
from tests.support.command import invoke, json_of, python, stdout_of
from tests.support.forked_programs import SWITCHED, Programs
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

_CLI = ["-m", "lucky_transport"]
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
    stub.GetForecast(weather_pb2.ForecastRequest(station="deadline"), timeout=50)
    calls = stub.WatchForecast(weather_pb2.ForecastRequest(station="forever", days=2))
    assert [next(calls).day, next(calls).day] == [0, 1]
    calls.cancel()
    assert stub.GetForecast(weather_pb2.ForecastRequest(station="left")).issued_ns == 1
    secret = (("authorization", "Bearer 1234"), ("team", "weather"))
    stub.GetForecast(weather_pb2.ForecastRequest(station="Oslo"), metadata=secret)
    assert len(list(stub.Chat(weather_pb2.Line(text="hello", number=one) for one in range(3)))) == 3
"""


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    imported = ("lucky_transport.cli.main", "replay")
    modules = (name if "." in name else f"lucky_transport_migration.recording.{name}" for name in imported)
    with Programs(*SWITCHED, *modules) as found:
        yield found


@contextmanager
def _served(programs: Programs, weather: WeatherPrograms, *options: str, shm: str) -> Iterator[str]:
    """Serve a fresh server over gRPC and in shared memory; gives its gRPC target."""
    _, *command = weather.server(0, *options)
    switched = {"LUCKY_TRANSPORT": "shm", "LUCKY_GRPC_SERVE": f"127.0.0.1:*={shm}"}
    with programs.start(command, first="lucky_transport.auto", **switched) as server:
        try:
            yield f"127.0.0.1:{server.stdout.readline().split()[-1]}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="module", params=["grpc", "complete"])
def recorded(
    request: pytest.FixtureRequest,
    programs: Programs,
    weather: WeatherPrograms,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Record the program, with all methods at a stage."""
    folder = tmp_path_factory.mktemp("recorded")
    stages = f'[stages.methods]\n"/weather.v1.Weather/*" = "{request.param}"\n'
    (folder / "lucky_transport.toml").write_text(stages + _EFFECTS)
    (folder / "asker.py").write_text(_ASKER)
    shm = f"shm://{unique_name()}"
    file = folder / "run.jsonl.gz"
    with _served(programs, weather, shm=shm) as target:
        under = [sys.executable, *_CLI, "run", "--transport", "staged", "--map", f"{target}={shm}", "--"]
        command = [*_CLI, "record", shm, "--out", str(file), "--", *under]
        client = [sys.executable, str(folder / "asker.py"), target, str(weather.folder)]
        stdout_of(python(*command, *client, cwd=folder))
    return file


def _replay(programs: Programs, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return programs.run([*_CLI, "replay", *arguments], cwd=cwd, environ=os.environ, timeout=PATIENCE_S)


def _replayed(programs: Programs, file: Path, *endpoints: str, code: int) -> dict[str, Any]:
    done = _replay(programs, str(file), *endpoints, "--json", cwd=file.parent)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("over", ["grpc", "shm"])
def test_a_recording_replays_equal_over_both_transports(
    recorded: Path, programs: Programs, weather: WeatherPrograms, over: str
) -> None:
    shm = f"shm://{unique_name()}"
    with _served(programs, weather, shm=shm) as target:
        found = _replayed(programs, recorded, shm if over == "shm" else f"grpc://{target}", code=0)
    assert found["equal"] is True
    assert (found["calls"], found["compared"]) == (11, 11), found
    assert {"status", "details", "items", "headers", "trailing metadata"} <= set(found["aspects"])
    assert "metadata of calls" not in {row["what"] for row in found["left_out"]}
    assert len(found["methods"]) == 6


@pytest.mark.parametrize(
    ("fault", "where"), [("deadline", r"call 7: .*storm"), ("cancellation", r"call 9: .*issued_ns")]
)
def test_a_deadline_or_a_cancellation_that_is_made_again_shows_a_difference_with_call_and_request(
    recorded: Path, programs: Programs, weather: WeatherPrograms, fault: str, where: str
) -> None:
    """Other differences are planted in tests/exhaustive/planted."""
    shm = f"shm://{unique_name()}"
    with _served(programs, weather, "--fault", fault, shm=shm) as target:
        assert target
        found = _replayed(programs, recorded, shm, code=1)  # a fault is planted in what goes over shared memory
    first = found["first_difference"]
    assert first["aspect"] == "item", first
    assert re.match(where, first["where"]), first
    assert first["values"]["recorded"] != first["values"]["shm"]
    assert re.search('"(deadline|left)"', first["values"]["request"])


def test_a_recording_has_deadlines_and_what_its_caller_left(recorded: Path) -> None:
    calls = [one for one in Recording(recorded).entries() if isinstance(one, RecordedCall)]
    assert [one.timeout_s for one in calls if one.timeout_s] == [pytest.approx(50)]
    assert [(one.code, one.left, len(one.items)) for one in calls if one.left] == [("CANCELLED", True, 2)]
    assert {one.arity for one in calls} == {"unary_unary", "unary_stream", "stream_unary", "stream_stream"}
    assert not any(one.unfinished for one in calls)


def test_without_a_description_bytes_are_compared_and_that_is_said(
    recorded: Path, programs: Programs, weather: WeatherPrograms, tmp_path: Path
) -> None:
    recording = Recording(recorded)
    calls = [replace(one, described=b"") for one in recording.entries() if isinstance(one, RecordedCall)]
    entries = [one for one in calls if "Forecast" not in one.call]  # no maps
    changed = replace(entries[-1], items=(*entries[-1].items[:-1], entries[-1].items[-1] + b"\x18\x01"))
    shm = f"shm://{unique_name()}"
    found = []
    with _served(programs, weather, shm=shm) as target:
        for number, written in enumerate((entries, [*entries[:-1], changed])):
            plain = tmp_path / f"plain-{number}.jsonl"
            plain.write_text(line_of(recording.header) + "".join(map(line_of, written)))
            found.append(_replayed(programs, plain, (f"grpc://{target}", shm)[number], code=number))
    assert (found[0]["calls"], found[0]["compared"]) == (4, 4)
    assert "fields of messages" in {row["what"] for row in found[0]["left_out"]}
    differing = [one for one in found[1]["methods"] if found[1]["methods"][one]["mismatches"]]
    assert "/weather.v1.Weather/Chat" in differing


def test_what_both_servers_have_changed_since_the_recording_is_no_matter_of_a_transport(
    recorded: Path, programs: Programs, weather: WeatherPrograms, tmp_path: Path
) -> None:
    recording = Recording(recorded)
    entries = [one for one in recording.entries() if isinstance(one, RecordedCall)]
    file = tmp_path / "older.jsonl"
    entries[3] = replace(entries[3], details="there was another text then")
    file.write_text(line_of(recording.header) + "".join(map(line_of, entries)))
    shm = f"shm://{unique_name()}"
    with _served(programs, weather, shm=f"shm://{unique_name()}") as target, _served(programs, weather, shm=shm):
        done = _replay(programs, str(file), f"grpc://{target}", shm, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    said = done.stdout
    assert f"differ: recording and {shm}" in said
    assert f"differ: grpc://{target} and {shm}" in said
    assert said.count("DIFFERENT: /weather.v1.Weather/GetForecast: details differ at call 4: details") == 2
    assert said.index("EQUAL: 11 of 11") > said.index(f"grpc://{target} and {shm}:")
    assert said.count("not compared: latency") == 1


#: Each second call is refused as unavailable; an answer has about 1,000 bytes.
_SERVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
import grpc
from google.protobuf.struct_pb2 import Struct

numbers = count()

def get(request, context):
    if next(numbers) % 2 == 0:
        context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
    return request

read = {"request_deserializer": Struct.FromString, "response_serializer": Struct.SerializeToString}
server = grpc.server(ThreadPoolExecutor(2))
handlers = {"GetHeaders": grpc.unary_unary_rpc_method_handler(get, **read)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("plants.v1.Plants", handlers),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""

_CLIENT = """
import json, sys
import grpc
from google.protobuf.struct_pb2 import Struct

policy = {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1}
policy["retryableStatusCodes"] = ["UNAVAILABLE"]
config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
options = [("grpc.service_config", json.dumps(config)), ("grpc.max_receive_message_length", 500)]
request = Struct()
with grpc.insecure_channel(sys.argv[1], options) as channel:
    get = channel.unary_unary("/plants.v1.Plants/GetHeaders", Struct.SerializeToString, Struct.FromString)
    for _ in range(4):
        get(request, timeout=50)
    request["long"] = "a" * 1000
    try:
        get(request, timeout=50)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> ServerCommand:
    file = tmp_path_factory.mktemp("server") / "server.py"
    file.write_text(_SERVER)
    return ServerCommand(shlex.join([sys.executable, str(file), "{port}"]))


@pytest.fixture(scope="module")
def limited(command: ServerCommand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what a program did that retries, and takes no long messages."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "client.py").write_text(_CLIENT)
    file = folder / "run.jsonl"
    with RunningServer(command, "grpc") as server:
        under = [*_CLI, "run", "--transport", "grpc", "--record", str(file), "--"]
        program = [sys.executable, str(folder / "client.py"), server.endpoint.removeprefix("grpc://")]
        python(*under, *program, check=True, cwd=folder)
    return file


def test_a_recording_has_the_options_of_each_call(limited: Path) -> None:
    calls = [one for one in Recording(limited).entries() if isinstance(one, RecordedCall)]
    assert [one.code for one in calls] == ["OK"] * 4 + ["RESOURCE_EXHAUSTED"]
    assert {tuple(name for name, _ in one.channel) for one in calls} == {
        ("grpc.service_config", "grpc.max_receive_message_length")
    }


@pytest.mark.parametrize("over", ["grpc", "shm"])
def test_a_replay_has_them_too(command: ServerCommand, limited: Path, tmp_path: Path, over: str) -> None:
    with RunningServer(command, over) as server:
        done = invoke("replay", str(limited), server.endpoint)
    assert done.exit_code == 0, done.output
    assert "EQUAL: 5 of 5" in done.output
    rows = [json.loads(line) for line in limited.read_text().splitlines()]
    plain = tmp_path / "without.jsonl"
    plain.write_text("".join(json.dumps({key: row[key] for key in row if key != "channel"}) + "\n" for row in rows))
    with RunningServer(command, over) as server:
        done = invoke("replay", str(plain), server.endpoint)
    assert done.exit_code == 1


def test_a_comparison_of_recorded_calls_has_them_too(
    command: ServerCommand, limited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("plants.binpb").write_bytes(described([PLANTS["headers"]]))
    given = ["parity", "--server", command.line, "--descriptor-set", "plants.binpb", "--from", str(limited), "--json"]
    (row,) = json_of(invoke(*given))["methods"].values()
    assert row["refusals"] == {"RESOURCE_EXHAUSTED": 1}
