"""Options of a program's channel that decide how its calls end are recorded, and its calls made again with them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("grpc")

from lucky_transport.cli.main import cli
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand
from lucky_transport_migration.recording.entries import RecordedCall, Recording
from tests.exhaustive.planted.test_answers_by_tool import ROOT, described
from tests.support.waiting import PATIENCE_S

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
handlers = {"Get": grpc.unary_unary_rpc_method_handler(get, **read)}
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
    get = channel.unary_unary("/plants.v1.Plants/Get", Struct.SerializeToString, Struct.FromString)
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
def recorded(command: ServerCommand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what a program did that retries, and takes no long messages."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "client.py").write_text(_CLIENT)
    file = folder / "run.jsonl"
    with RunningServer(command, "grpc") as server:
        under = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", "--record", str(file), "--"]
        program = [sys.executable, str(folder / "client.py"), server.endpoint.removeprefix("grpc://")]
        subprocess.run([*under, *program], check=True, timeout=PATIENCE_S, cwd=folder, capture_output=True)
    return file


def without_options(file: Path, folder: Path) -> Path:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = folder / "without.jsonl"
    found.write_text("".join(json.dumps({key: row[key] for key in row if key != "channel"}) + "\n" for row in lines))
    return found


def test_a_recording_has_the_options_of_each_call(recorded: Path) -> None:
    calls = [one for one in Recording(recorded).entries() if isinstance(one, RecordedCall)]
    assert [one.code for one in calls] == ["OK"] * 4 + ["RESOURCE_EXHAUSTED"]
    assert {tuple(name for name, _ in one.channel) for one in calls} == {
        ("grpc.service_config", "grpc.max_receive_message_length")
    }


@pytest.mark.parametrize("over", ["grpc", "shm"])
def test_a_replay_has_them_too(command: ServerCommand, recorded: Path, tmp_path: Path, over: str) -> None:
    with RunningServer(command, over) as server:
        done = CliRunner().invoke(cli, ["replay", str(recorded), server.endpoint])
    assert done.exit_code == 0, done.output
    assert "EQUAL: 5 of 5" in done.output
    with RunningServer(command, over) as server:
        done = CliRunner().invoke(cli, ["replay", str(without_options(recorded, tmp_path)), server.endpoint])
    assert done.exit_code == 1


def test_a_comparison_of_recorded_calls_has_them_too(
    command: ServerCommand, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("plants.binpb").write_bytes(described())
    given = ["parity", "--server", command.line, "--descriptor-set", "plants.binpb", "--from", str(recorded), "--json"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["methods"].values()
    assert row["refusals"] == {"RESOURCE_EXHAUSTED": 1}
