"""`lucky-transport services`, and where else it shows what an engine answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lucky_transport import api
from lucky_transport.cli.main import cli
from lucky_transport.process import unique_name


@pytest.fixture
def endpoint() -> Iterator[str]:
    name = f"shm://{unique_name()}"
    with api.serve("toy", name):
        yield name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def plain(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_services_are_shown_and_switched(endpoint: str) -> None:
    assert plain("services", endpoint)["services"] == {
        "hazel.rpc.AgentService": True,
        "hazel.rpc.MujocoService": True,
        "hazel.rpc.SceneService": True,
        "hazel.rpc.TelemetryService": True,
        "lucky_transport.v1.BatchService": True,
    }
    after = plain("services", endpoint, "--off", "Scene*,MujocoService", "--fps", "TelemetryService=12.5")
    off = [name for name, is_on in after["services"].items() if not is_on]
    assert off == ["hazel.rpc.MujocoService", "hazel.rpc.SceneService"]
    assert plain("services", endpoint) == after
    shown = run("services", endpoint, "--on", "*").output
    assert "off" not in shown.split()
    assert "/hazel.rpc.TelemetryService/StreamTelemetry  12.5/s at most" in shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--off", "SceneServce"], "did you mean 'SceneService'?"),
        (["--off", "BatchService"], "carries the steps of envs"),
        (["--fps", "TelemetryService"], "write NAME=RATE, e.g. CameraService=10"),
        (["--fps", "TelemetryService=-1"], "write items a second, 0 for no limit"),
    ],
)
def test_what_is_wrong_is_refused_with_the_remedy(endpoint: str, arguments: list[str], text: str) -> None:
    done = run("services", endpoint, *arguments)
    assert done.exit_code == 1
    assert text in done.output


def test_an_engine_that_is_not_there_is_refused_with_those_that_are(endpoint: str) -> None:
    done = run("services", "shm://nobody")
    assert done.exit_code == 1
    assert "no engine of yours is served at shm://nobody on this host; yours are at" in done.output
    assert endpoint in done.output


def test_what_is_off_is_seen_by_ls_and_inspect(endpoint: str) -> None:
    plain("services", endpoint, "--off", "SceneService", "--fps", "TelemetryService=5")
    assert "off: SceneService; TelemetryService/StreamTelemetry at most 5/s" in run("ls").output
    running = {one["endpoints"][0]: one for one in plain("ls")["running"]}
    assert running[endpoint]["services"]["hazel.rpc.SceneService"] is False
    inspected = plain("inspect", endpoint)
    assert inspected["services"] == running[endpoint]["services"]
    assert inspected["streams"]["/hazel.rpc.TelemetryService/StreamTelemetry"] == 5
    assert "hazel.rpc.SceneService           off" in run("inspect", endpoint).output


def test_what_is_off_is_seen_over_a_connection_too() -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    with api.serve("toy", "grpc://127.0.0.1:0", without_services="SceneService") as serving:
        inspected = plain("inspect", str(serving.endpoints[0]))
    assert inspected["methods"]["/hazel.rpc.SceneService/GetSceneInfo"] == "is switched off"
    assert inspected["methods"]["/hazel.rpc.MujocoSceneService/GetModelInfo"] == "not implemented"
    assert inspected["services"]["hazel.rpc.SceneService"] is False
