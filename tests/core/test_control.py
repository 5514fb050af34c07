"""What other processes see of a running engine and change in it: by its own user alone, and nothing stays behind."""

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api, config, control
from lucky_transport.errors import ConfigError, NotReachable, RemoteProtocolError, SpecError, Unimplemented, UnknownName
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.messages import GetSceneInfoRequest
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.core.test_fork import in_a_child
from tests.support.foreign_files import as_another_user, foreign_uid, why_not
from tests.support.waiting import until

SCENE = method("SceneService/GetSceneInfo")
SPEC = BatchSpec(engine="small", num_envs=2, observation=ArraySpec("float32", (1,)), action=ArraySpec("float32", (1,)))


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory of the test's own: a path that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="lucky-", dir="/tmp"))
    monkeypatch.setattr(control, "runtime_directories", lambda: (folder,))
    monkeypatch.setattr("lucky_transport.shm.files.server_description.runtime_directories", lambda: (folder,))
    yield folder
    shutil.rmtree(folder)


def small() -> ServiceSwitch:
    return ServiceSwitch("small", METHODS)


def test_an_engine_is_found_at_each_of_its_endpoints_and_only_while_it_runs(runtime: Path) -> None:
    with control.listening(small(), SPEC, ["shm://a", "grpc://127.0.0.1:5"]):
        with control.listening(small(), SPEC, ["shm://b"]):
            assert [one.endpoints[0] for one in control.engines()] == ["shm://a", "shm://b"]
            assert control.engine_at("grpc://127.0.0.1:5").endpoints == ("shm://a", "grpc://127.0.0.1:5")
        with pytest.raises(
            NotReachable, match=r"no engine of yours is served at shm://b on this host; yours are at grpc"
        ):
            control.engine_at("shm://b")
    assert control.engines() == []
    assert list(runtime.iterdir()) == []


def test_a_change_from_elsewhere_holds_and_is_told(runtime: Path) -> None:
    switch = small()
    with control.listening(switch, SPEC, ["shm://a"]):
        found = control.change("shm://a", off=["Scene*"], fps={"TelemetryService": 5})
        assert (found.engine, found.num_envs, found.pid) == ("small", 2, os.getpid())
        assert found.off == ["SceneService"]
        assert found.limited == {"TelemetryService/StreamTelemetry": 5.0}
        assert found.summary == "off: SceneService; TelemetryService/StreamTelemetry at most 5/s"
        assert control.engine_at("shm://a") == found
        assert switch.services["hazel.rpc.SceneService"] is False
        switch.change(on=["*"], fps={"*": 0})
        assert control.engine_at("shm://a").summary == "all on"


@pytest.mark.parametrize("message", [b"", b"{", b"[]", b"{}", b'{"on": 1, "off": 2, "fps": 3}', bytes(1000)])
def test_a_message_that_is_no_change_is_refused_and_the_next_is_made(runtime: Path, message: bytes) -> None:
    with control.listening(small(), SPEC, ["shm://a"]):
        [path] = runtime.glob("*.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(str(path))
            if message:
                connection.send(message)
                assert set(json.loads(connection.recv(1 << 16))) == {"code", "text"}
        assert control.change("shm://a", off=["Scene*"]).off == ["SceneService"]


def test_a_silent_connection_holds_up_no_change_and_is_hung_up(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_HELLO_S", 3600.0)
    with control.listening(small(), SPEC, ["shm://a"]), contextlib.ExitStack() as stack:
        [path] = runtime.glob("*.sock")
        silent = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(3)]
        for connection in silent[:2]:
            connection.connect(str(path))
        assert control.change("shm://a", off=["Scene*"]).off == ["SceneService"]
        monkeypatch.setattr(control, "_HELLO_S", 0.0)
        silent[2].connect(str(path))
        assert silent[2].recv(1) == b""


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_another_user_changes_nothing_also_where_it_can_reach_the_socket(runtime: Path) -> None:
    """As if an administrator had opened the directory and the socket: the engine asks the kernel who connects."""
    ask = """connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    connection.connect(sys.argv[1])
    connection.send(b'{"on": [], "off": ["*"], "fps": {}}')
    print(connection.recv(1 << 16).decode())
except PermissionError as error:
    print(error)
"""
    with control.listening(small(), SPEC, ["shm://a"]):
        [path] = runtime.glob("*.sock")
        assert "Permission denied" in as_another_user(ask, path)[0]
        runtime.chmod(0o755)
        path.chmod(0o666)
        [refused] = as_another_user(ask, path)
        runtime.chmod(0o700)
        assert json.loads(refused)["code"] == RemoteProtocolError.wire_code
        assert f"belongs to user {foreign_uid()}" in refused
        assert control.engine_at("shm://a").summary == "all on"


def test_what_an_engine_says_is_checked(runtime: Path) -> None:
    with control.listening(small(), SPEC, ["shm://a"]):
        [file] = runtime.glob("*.json")
        for text in ("{}", '{"endpoints": 3}', "no JSON", '{"endpoints": [], "services": [], "streams": {}}'):
            file.write_text(text)
            assert control.engines() == []


def test_what_lies_in_a_directory_that_others_can_enter_is_passed_over(runtime: Path) -> None:
    with control.listening(small(), SPEC, ["shm://a"]):
        runtime.chmod(0o750)
        assert control.engines() == []
        runtime.chmod(0o700)
        assert [one.endpoints for one in control.engines()] == [("shm://a",)]


def test_a_change_of_a_killed_engine_is_refused_and_its_place_is_used_again(runtime: Path) -> None:
    pid = os.fork()
    if not pid:
        with control.listening(small(), SPEC, ["shm://a"]):
            signal.pause()
    until(lambda: control.engines())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert control.engines() == []
    with pytest.raises(NotReachable):
        control.change("shm://a", off=["Scene*"])
    with control.listening(small(), SPEC, ["shm://b"]):
        assert [one.endpoints for one in control.engines()] == [("shm://b",)]
    assert list(runtime.iterdir()) == []


def test_a_forked_child_takes_nothing_away(runtime: Path) -> None:
    with contextlib.ExitStack() as block:
        block.enter_context(control.listening(small(), SPEC, ["shm://a"]))
        assert in_a_child(lambda: block.close() is None)
        assert control.change("shm://a", off=["Scene*"]).off == ["SceneService"]


def test_an_engine_runs_where_there_is_no_place_for_the_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(control, "runtime_directories", lambda: (tmp_path / "no" / "such",))
    with caplog.at_level(logging.WARNING, "lucky_transport"), control.listening(small(), SPEC, ["shm://a"]):
        assert "engine 'small' cannot be changed from outside" in caplog.text
    assert config.runtime_directories()


def test_an_engine_begins_as_its_settings_say() -> None:
    name = unique_name()
    chosen: dict[str, Any] = {
        "services": "Scene* MujocoService",
        "without_services": "MujocoService",
        "stream_fps": "MujocoService=4",
    }
    with api.serve("toy", f"shm://{name}", **chosen), api.open_transport(f"shm://{name}") as client:
        found = control.engine_at(f"shm://{name}")
        assert found.off == ["AgentService", "MujocoService", "TelemetryService"]
        assert found.limited == {"MujocoService/StreamJointState": 4.0}
        assert client.call(SCENE, GetSceneInfoRequest())


@pytest.mark.parametrize(
    "chosen", [{"services": "Scen"}, {"without_services": "x"}, {"stream_fps": "5"}, {"stream_fps": "x=5"}]
)
def test_an_engine_that_cannot_be_as_its_settings_say_does_not_start(chosen: dict[str, Any]) -> None:
    name = unique_name()
    with pytest.raises((UnknownName, ConfigError, SpecError)):
        api.serve("toy", f"shm://{name}", **chosen)
    with api.serve("toy", f"shm://{name}"):
        assert control.engine_at(f"shm://{name}").summary == "all on"


@pytest.mark.exhaustive
def test_an_engine_in_a_process_of_its_own_is_changed_from_here() -> None:
    name = unique_name()
    engine = EngineProcess("toy", [f"shm://{name}"])
    try:
        with api.open_transport(f"shm://{name}") as client:
            control.change(f"shm://{name}", off=["SceneService"])
            with pytest.raises(Unimplemented, match=f"lucky-transport services shm://{name} --on SceneService"):
                client.call(SCENE, GetSceneInfoRequest())
            control.change(f"shm://{name}", on=["SceneService"])
            assert client.call(SCENE, GetSceneInfoRequest())
    finally:
        engine.stop()
    with pytest.raises(NotReachable):
        control.engine_at(f"shm://{name}")
