"""Where a pipe is, which rules an endpoint sets, and what `connect` answers."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, ConfigError, Unimplemented
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.options import SessionRules, rules_of
from tests.support.waiting import until


def test_an_engine_at_a_pipe_is_no_batch_and_connect_names_what_is() -> None:
    for connect in (lucky_transport.connect, lambda endpoint: lucky_transport.make(endpoint=endpoint)):
        with pytest.raises(Unimplemented, match=r"pipe\.instance\.Instance, or serve the engine at shm://"):
            connect("pipe://train")
    with pytest.raises(ConfigError, match=r"'pipe' cannot start an engine by itself; .*shm"):
        lucky_transport.make("cartpole", transport="pipe")


def test_a_served_pipe_without_a_name_gets_one() -> None:
    with api.serve("cartpole", "pipe:") as serving, Instance(serving.endpoints[0].address) as instance:
        assert instance.experiment("cart_pole", []).play(lambda _, state: None) == []


def test_an_engine_makes_no_socket_for_another_file_in_its_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(path: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
        looked.append(path)
        return exists(path)

    def refuse(*_: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(os.path, "lexists", look)
    with api.serve("cartpole", f"pipe://{name}"):
        monkeypatch.setattr(socket, "socket", refuse)
        before = len(looked)
        with tempfile.NamedTemporaryFile(dir=Path(path_of(name)).parent):
            until(lambda: looked[before:].count(path_of(name)) > 1)
        monkeypatch.undo()


def test_a_pipe_is_where_dotnet_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert path_of("train") == "/var/tmp/CoreFxPipe_train"
    assert path_of(r"\\.\pipe\train") == "/var/tmp/CoreFxPipe_train"
    assert path_of("/run/x.sock") == "/run/x.sock"
    monkeypatch.delenv("TMPDIR")
    assert path_of("train") == "/tmp/CoreFxPipe_train"


@pytest.mark.parametrize("wrong", ["", "a/b", "x" * 200, "a\0b"])
def test_a_name_that_makes_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError):
        path_of(wrong)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "x"
    place.write_text("precious")
    with pytest.raises(ConfigError, match="no socket is there"):
        Instance(str(place))
    assert place.read_text() == "precious"


def test_a_place_where_another_program_listens_is_left_alone(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path_of(name))
        listener.listen(1)
        with pytest.raises(Busy, match="another program listens"):
            Instance(name)
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(path_of(name))
        Path(path_of(name)).unlink()


def test_an_endpoint_says_the_rules() -> None:
    endpoint = Endpoint.parse("pipe://x?slots=3&stepping=independent&timeout_s=2.5")
    assert rules_of(endpoint, 60.0) == SessionRules(3, False, 2.5)
    assert rules_of(Endpoint.parse("pipe://x"), 7.0) == SessionRules(16, True, 7.0)


@pytest.mark.parametrize("wrong", ["slots=0", "slots=a", "stepping=fast", "timeout_s=0", "timeout_s=nan", "color=red"])
def test_a_wrong_rule_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"expected |there are slots, stepping, timeout_s"):
        rules_of(Endpoint.parse(f"pipe://x?{wrong}"), 60.0)
