"""Any number of clients connect to one engine and cannot hurt it; its socket is private, of one engine or one group."""

import contextlib
import errno
import itertools
import logging
import os
import resource
import select
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, ConfigError, NotReachable, RemoteProtocolError, SegmentError
from lucky_transport.shm.files import server_description
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.files.socket_path import (
    DESCRIPTION_SUFFIX,
    private_directory,
    remove_stale_sockets,
    socket_path,
    sockets_of,
)
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello, ServerHello
from lucky_transport.shm.listener.listener import MAX_CLIENTS, Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.core.shm.conftest import Connect, Start, advance_until, assert_refused_in_a_child, hung_up, knock, meet
from tests.support.waiting import beside, soon

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


@pytest.fixture
def raised_descriptors() -> Iterator[None]:
    """Let this process have as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8 * MAX_CLIENTS:
        pytest.skip(f"this process may have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8 * MAX_CLIENTS, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- meeting ---


def test_a_client_is_told_what_a_sandbox_refuses_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    with Listener("demo", directory=tmp_path) as listener, knock(listener.path) as client:
        monkeypatch.setattr("os.memfd_create", Mock(side_effect=refused))
        client.send(ClientHello().to_bytes())
        advance_until(listener, lambda: bool(select.select([client], [], [], 0)[0]))
        answer = ServerHello.of(client.recv(4096))
    assert answer.status == NotReachable.wire_code
    assert "takes no client: the system refuses a call of it (Operation not permitted); allow it in" in answer.reason


def test_more_clients_than_allowed_are_told_so(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path, max_clients=1) as listener, knock(listener.path) as first:
        first.send(ClientHello().to_bytes())
        [pipe] = advance_until(listener, lambda: listener.clients == 1)
        with knock(listener.path) as second:
            second.send(ClientHello().to_bytes())
            assert advance_until(listener, lambda: bool(select.select([second], [], [], 0)[0])) == []
            answer = ServerHello.of(second.recv(1024))
        assert (answer.status, listener.clients) == (Busy.wire_code, 1)
        assert "has 1 clients already; close one" in answer.reason
        pipe.close()
        assert listener.clients == 0


@pytest.mark.exhaustive
def test_as_many_clients_as_the_page_says_are_let_in_and_replaced(tmp_path: Path, raised_descriptors: None) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(Listener("demo", directory=tmp_path, ring_bytes=4096, arena_bytes=0))

        def answered() -> ServerHello:
            client = stack.enter_context(knock(listener.path))
            client.send(ClientHello().to_bytes())
            client.setblocking(False)
            found = list[bytes]()

            def has_answer() -> bool:
                with contextlib.suppress(BlockingIOError):
                    found.append(client.recv(4096))
                return bool(found)

            for pipe in advance_until(listener, has_answer):
                stack.callback(pipe.close)
                pipes.append(pipe)
            return ServerHello.of(found[0])

        pipes: list[MemfdPipe] = []
        assert {answered().status for _ in range(MAX_CLIENTS)} == {0}
        assert (answered().status, listener.clients) == (Busy.wire_code, MAX_CLIENTS)
        pipes[0].close()
        assert answered().status == 0


def test_a_hundred_clients_that_come_at_once_are_let_in(tmp_path: Path) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(Listener("demo", directory=tmp_path, ring_bytes=4096, arena_bytes=0))
        clients = [stack.enter_context(knock(listener.path)) for _ in range(100)]
        for client in clients:
            client.send(ClientHello().to_bytes())
        pipes = advance_until(listener, lambda: listener.clients == len(clients) or any(map(hung_up, clients)))
        for pipe in pipes:
            stack.callback(pipe.close)
        assert not any(map(hung_up, clients))


# --- hostile clients ---


@pytest.mark.parametrize("message", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(8), ClientHello().to_bytes() * 2])
def test_a_wrong_hello_drops_that_client_alone(listener: Listener, connect: Connect, message: bytes) -> None:
    with knock(listener.path) as stranger:
        stranger.send(message)
        advance_until(listener, lambda: hung_up(stranger))
    client, engine = connect()
    assert client.try_push(b"still there")
    assert engine.try_pop() == b"still there"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=st.binary(min_size=1, max_size=64) | st.binary(max_size=12).map(lambda rest: b"LRRV" + rest))
def test_no_hello_breaks_the_listener(tmp_path: Path, message: bytes) -> None:
    with Listener("demo", directory=tmp_path, ring_bytes=4096) as listener, knock(listener.path) as stranger:
        stranger.send(message)
        pipes = listener.advance()
        pipes += advance_until(listener, lambda: listener.patience_ns is None)
        assert len(pipes) == (len(message) == 8 and message[:6] == b"LRRV\x02\x00")
        for pipe in pipes:
            pipe.close()


def test_another_version_is_refused_with_both_versions(listener: Listener) -> None:
    with knock(listener.path) as client:
        client.send(ClientHello(version=7).to_bytes())
        listener.advance()
        listener.advance()
        answer = ServerHello.of(client.recv(1024))
        assert answer.status == RemoteProtocolError.wire_code
        assert "speaks version 7 of the handshake, the engine 2; install" in answer.reason
        advance_until(listener, lambda: hung_up(client))


def test_a_client_that_says_nothing_is_dropped_in_time(listener: Listener) -> None:
    with knock(listener.path) as silent:
        listener.advance()
        patience = listener.patience_ns
        assert patience is not None
        assert 0 < patience <= 100_000_000
        advance_until(listener, lambda: hung_up(silent))
    assert listener.patience_ns is None


def test_many_silent_clients_do_not_keep_an_honest_one_out(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path, hello_timeout_s=30) as listener:
        silent: list[socket.socket] = []
        for _ in range(100):
            silent.append(knock(listener.path))
            listener.advance()
        assert sum(hung_up(connection) for connection in silent) >= 60
        for pipe in meet(tmp_path, listener.advance):
            pipe.close()
        for connection in silent:
            connection.close()


def test_a_client_that_closes_after_its_hello_leaves_a_pipe_whose_peer_has_left(listener: Listener) -> None:
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
    pipes: list[MemfdPipe] = []
    pipes += advance_until(listener, lambda: listener.patience_ns is None and listener.advance() == [])
    for pipe in pipes:
        assert pipe.peer_left
        pipe.close()


@pytest.mark.parametrize(
    ("error", "pauses"),
    [(ConnectionAbortedError(), False), (OSError(24, "Too many open files"), True)],
    ids=["that leaves before it is accepted", "for which there is no descriptor"],
)
def test_a_client_keeps_no_other_waiting(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: OSError, pauses: bool
) -> None:
    failing = Mock(wraps=listener._listener)  # pyright: ignore[reportPrivateUsage]
    failing.accept.side_effect = itertools.chain([error], itertools.repeat(DEFAULT))
    monkeypatch.setattr(listener, "_listener", failing)
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
        pipes = listener.advance()
        assert ("cannot take a client now" in caplog.text) is pauses
        assert pauses is (listener.patience_ns is not None)
        pipes += advance_until(listener, lambda: listener.clients == 1) if pauses else listener.advance()
        assert len(pipes) == 1
        pipes[0].close()


def test_a_listener_that_cannot_be_listed_says_so_and_lets_clients_in(
    listener: Listener, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    Path(f"{listener.path}{DESCRIPTION_SUFFIX}").mkdir()
    with caplog.at_level(logging.INFO, "lucky_transport"):
        listener.describe(ServerDescription("weather", os.getpid()))
    assert f"the server at {listener.path} is not listed: " in caplog.text
    client, engine = connect()
    assert client.try_push(b"let in")
    assert engine.try_pop() == b"let in"


# --- after fork ---


def test_a_forked_child_has_no_listener_and_takes_nothing_away(listener: Listener, connect: Connect) -> None:
    assert_refused_in_a_child(listener.advance, close=listener.close)
    connect()


DEAD_ENGINE = """
import sys
from pathlib import Path
from lucky_transport.shm.listener.listener import Listener
listening = Listener("demo", directory=Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def test_the_socket_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path / "run") as listener:
        assert stat.S_IMODE(listener.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(listener.path.parent.stat().st_mode) == 0o700
    assert list((tmp_path / "run").iterdir()) == []
    listener.close()
    with pytest.raises(ClosedError, match="is closed"):
        listener.advance()


def test_a_living_engines_socket_is_refused(listener: Listener) -> None:
    with pytest.raises(Busy, match=f"the process of pid {os.getpid()} listens at {listener.path}; use another name"):
        Listener("demo", directory=listener.path.parent)
    assert listener.path.exists()


def test_listeners_of_a_group_share_a_name_and_a_client_finds_each(tmp_path: Path) -> None:
    found: set[Path] = set()
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(Listener("demo", directory=tmp_path, group="port 1")) for _ in range(3)]
        assert len({listener.path for listener in listeners}) == 3
        for _ in range(200):
            found.add(next(sockets_of(tmp_path, "demo")))
        assert found == {listener.path for listener in listeners}
    assert list(tmp_path.iterdir()) == []


def test_a_name_belongs_to_one_group_or_to_one_listener(tmp_path: Path) -> None:
    of_a_group = Listener("demo", directory=tmp_path, group="port 1")
    for group in ("port 2", ""):
        with pytest.raises(Busy, match=f"the process of pid {os.getpid()} listens at"):
            Listener("demo", directory=tmp_path, group=group)
    with Listener("demo_2", directory=tmp_path):
        of_a_group.close()
    with Listener("demo", directory=tmp_path), pytest.raises(Busy):
        Listener("demo", directory=tmp_path, group="port 1")
    assert list(tmp_path.iterdir()) == []


def test_of_a_group_only_those_that_live_are_found(tmp_path: Path, start: Start) -> None:
    engine = start(DEAD_ENGINE.replace("directory=", "group='port 1', directory="), tmp_path)
    assert engine.stdout.readline() == "listening\n"
    with Listener("demo", directory=tmp_path, group="port 1") as listener:
        engine.kill()
        engine.wait()
        pipes: list[MemfdPipe] = []
        with beside(lambda: pipes.extend(connect_pipe("demo", soon(), directories=[tmp_path]) for _ in range(20))):
            served = advance_until(listener, lambda: len(pipes) == 20)
        for pipe in (*pipes, *served):
            pipe.close()
        with Listener("demo", directory=tmp_path, group="port 1") as replacing:
            assert len(list(tmp_path.glob("*.sock"))) == 2
            assert replacing.path != listener.path


@pytest.mark.exhaustive
def test_another_processs_socket_is_refused_while_it_lives_and_replaced_then(tmp_path: Path, start: Start) -> None:
    (tmp_path / "file.sock").touch()
    for is_cleaned_up in (True, False):
        engine = start(DEAD_ENGINE, tmp_path)
        assert engine.stdout.readline() == "listening\n"
        with pytest.raises(Busy, match=f"the process of pid {engine.pid} listens"):
            Listener("demo", directory=tmp_path)
        assert remove_stale_sockets([tmp_path, tmp_path / "missing"]) == []
        engine.kill()
        engine.wait()
        assert socket_path(tmp_path, "demo").exists()
        with pytest.raises(NotReachable):
            connect_pipe("demo", Deadline(0), directories=[tmp_path])
        if is_cleaned_up:
            assert remove_stale_sockets([tmp_path]) == [tmp_path / "demo.sock"]
            assert [path.name for path in tmp_path.iterdir()] == ["file.sock"]
    with Listener("demo", directory=tmp_path) as listener:
        knock(listener.path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["file.sock"]


def test_a_description_goes_whose_socket_is_gone_too_unless_its_engine_lives(tmp_path: Path) -> None:
    with Listener("mine", directory=tmp_path) as living:
        for path in (living.path, tmp_path / "gone.sock"):
            server_description.describe(path, ServerDescription("mine", os.getpid())._asdict())
        living.path.unlink()
        assert remove_stale_sockets([tmp_path]) == [tmp_path / "gone.sock"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.sock.json", "mine.sock.lock"]


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo.sock").write_text("mine")
    with pytest.raises(SegmentError, match="exists and is no socket; use another name"):
        Listener("demo", directory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["demo.sock"]


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name, text in (
        ("open", r"not a directory that only you can enter \(owner \d+, mode 0755\); .*chmod"),
        ("link", "not a directory that only you can enter"),
        *((name, "cannot be used for sockets") for name in ("file", "no/where")),
    ):
        with pytest.raises(ConfigError, match=text):
            private_directory(tmp_path / name)


@pytest.mark.parametrize("length", [1, 80, 200])
def test_a_name_of_any_length_has_a_socket_that_can_be_bound(tmp_path: Path, length: int) -> None:
    with Listener("n" * length, directory=tmp_path) as listener:
        knock(listener.path).close()
        assert listener.path == socket_path(tmp_path, "n" * length)
    assert socket_path(tmp_path, "n" * 200) != socket_path(tmp_path, "n" * 199 + "m")


def test_a_directory_too_deep_for_sockets_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 107 bytes; set XDG_RUNTIME_DIR"):
        socket_path(Path("/" + "deep/" * 30), "demo")
