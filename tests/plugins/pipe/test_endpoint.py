"""Where a pipe is, which rules an endpoint sets, what `connect` answers, and bytes over a connection."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    PeerDied,
    PeerTimeout,
    TransportError,
    Unimplemented,
)
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.connection import PipeConnection
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.listener import PipeListener
from lucky_transport_pipe.options import SessionRules, rules_of
from tests.plugins.failing_starts import no_descriptors
from tests.support.waiting import PATIENCE_S, until


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


def test_a_client_that_may_open_no_more_files_says_so_and_leaves_nothing(name: str) -> None:
    for allowed in range(2):
        with no_descriptors(allowed), pytest.raises(TransportError, match=r"too many open files.*ulimit -n"):
            PipeListener(name)
        PipeListener(name).close()


# bytes over a connection: nothing stands still, and every wait ends


@pytest.fixture
def ends() -> Generator[tuple[PipeConnection, PipeConnection]]:
    one, other = socket.socketpair()
    with closing(PipeConnection(one, "the other")) as first, closing(PipeConnection(other, "the one")) as second:
        yield first, second


def test_what_the_peer_wrote_before_it_closed_is_still_read(ends: Any) -> None:
    one, other = ends
    one.send(b"last", Deadline(1))
    one.close()
    assert other.receive(Deadline(1)) == b"last"
    with pytest.raises(PeerDied, match="the one closed the pipe or ended"):
        other.receive(Deadline(1))


def test_closing_ends_a_wait_of_another_thread_and_refuses_everything_after_it(ends: Any) -> None:
    one, _ = ends
    threading.Timer(0.05, one.close).start()
    with pytest.raises(ClosedError):
        one.receive(Deadline(PATIENCE_S))
    for use in (lambda: one.receive(Deadline(0)), lambda: one.send(b"x", Deadline(0))):
        with pytest.raises(ClosedError):
            use()


def test_a_peer_that_takes_nothing_is_told_by_the_deadline(ends: Any) -> None:
    one, _ = ends
    with pytest.raises(PeerTimeout, match=r"bytes within 0\.05 s"):
        one.send(b"x" * (64 << 20), Deadline(0.05))


def test_two_sides_that_both_write_before_they_read_both_get_done(ends: Any) -> None:
    one, other = ends
    data = b"x" * (8 << 20)

    def write_and_read(end: PipeConnection) -> int:
        end.send(data, Deadline(PATIENCE_S))
        received = 0
        while received < len(data):
            received += len(end.receive(Deadline(PATIENCE_S)))
        return received

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write_and_read, (one, other))) == [len(data)] * 2
    with pytest.raises(PeerTimeout):
        one.receive(Deadline(0))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on(ends: Any) -> None:
    one, other = ends
    pid = os.fork()
    if pid == 0:
        try:
            one.send(b"child", Deadline(1))
        except ClosedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    one.send(b"parent", Deadline(1))
    assert other.receive(Deadline(1)) == b"parent"
