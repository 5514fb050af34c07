"""Any number of clients connect_pipe one engine, and none of them can hurt it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    NotReachable,
    PeerTimeout,
    RemoteProtocolError,
    SegmentError,
)
from lucky_transport.process import unique_name
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.files.socket_path import private_directory, remove_stale_sockets, socket_path, sockets_of
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello, ServerHello, make_pair
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.support.waiting import call_later, soon

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

DEAD_ENGINE = """
import sys
from pathlib import Path
from lucky_transport.shm.listener.listener import Listener
listening = Listener("demo", directory=Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def knock(path: Path) -> socket.socket:
    """Connect and say nothing."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def advance_until(listener: Listener, done: Callable[[], bool]) -> list[MemfdPipe]:
    """Serve the listener until `done()`; ten seconds at most."""
    until = time.monotonic() + 10
    pipes: list[MemfdPipe] = []
    while not done():
        assert time.monotonic() < until
        pipes.extend(listener.advance())
        time.sleep(0.001)
    return pipes


def hung_up(connection: socket.socket) -> bool:
    """True when the other side closed the connection."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and connection.recv(4096) == b""
    except ConnectionResetError:
        return True


# --- meeting ---


def test_each_client_gets_a_pipe_of_its_own(connect: Callable[..., tuple[MemfdPipe, MemfdPipe]]) -> None:
    pairs = [connect() for _ in range(4)]
    for number, (client, engine) in enumerate(pairs):
        assert client.try_push(b"to engine %d" % number)
        assert engine.try_push(b"to client %d" % number)
    for number, (client, engine) in enumerate(pairs):
        assert engine.try_pop() == b"to engine %d" % number
        assert client.try_pop() == b"to client %d" % number
        assert engine.peer == f"shm client of pid {os.getpid()}"
        assert client.peer.startswith(f"the engine of pid {os.getpid()} at /")


def test_nobody_there_is_said_with_the_places_and_the_remedy(tmp_path: Path) -> None:
    name, other = unique_name(), tmp_path / "other"
    with pytest.raises(
        NotReachable, match=rf"no engine listens at {tmp_path}/{name}.sock or {other}/{name}.sock .*start"
    ):
        connect_pipe(name, Deadline(0.01), directories=[tmp_path, other])


def test_a_client_may_come_before_the_engine(tmp_path: Path) -> None:
    met: list[MemfdPipe] = []
    thread = threading.Thread(target=lambda: met.append(connect_pipe("demo", Deadline(10), directories=[tmp_path])))
    thread.start()
    time.sleep(0.02)
    with Listener("demo", directory=tmp_path) as listener:
        for pipe in advance_until(listener, lambda: bool(met)):
            pipe.close()
    thread.join()
    met[0].close()


def test_an_engine_whose_socket_is_removed_meanwhile_is_gone(tmp_path: Path) -> None:
    """As it is when a child of a dead engine keeps the socket open, and another engine has removed what it left."""
    path = socket_path(tmp_path, "demo")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as kept:
        kept.bind(str(path))
        kept.listen()
        call_later(path.unlink)
        with pytest.raises(NotReachable, match="no engine listens"):
            connect_pipe("demo", Deadline(0.4), directories=[tmp_path])


def test_an_engine_that_never_answers_is_a_timeout(listener: Listener) -> None:
    with pytest.raises(PeerTimeout, match=r"did not answer within 0\.0\d+ s; it may hang"):
        connect_pipe("demo", Deadline(0.05), directories=[listener.path.parent])


_FORKED_FROM_C = """
import ctypes, signal, sys
from pathlib import Path
from lucky_transport.shm.listener.listener import Listener
kept = Listener("demo", directory=Path(sys.argv[1]))
child = ctypes.CDLL(None).fork()  # without Python's hooks: the child keeps the socket
if child:
    print(child, flush=True)
signal.pause()
"""


def test_an_engine_that_dies_before_it_answers_is_not_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FORKED_FROM_C, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as engine, contextlib.ExitStack() as undo:
        undo.callback(engine.kill)
        assert engine.stdout is not None
        undo.callback(os.kill, int(engine.stdout.readline()), signal.SIGKILL)
        killer = call_later(engine.kill)
        with pytest.raises(NotReachable, match="no engine listens"):
            connect_pipe("demo", Deadline(0.5), directories=[tmp_path])
        killer.join()


def test_more_clients_than_allowed_are_told_so(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path, max_clients=1) as listener:
        outcome: list[MemfdPipe | Busy] = []

        def come() -> None:
            try:
                outcome.append(connect_pipe("demo", Deadline(10), directories=[tmp_path]))
            except Busy as error:
                outcome.append(error)

        pipes: list[MemfdPipe] = []
        for number in (1, 2):
            thread = threading.Thread(target=come)
            thread.start()
            pipes += advance_until(listener, lambda number=number: len(outcome) == number)
            thread.join()
        first, second = outcome
        assert isinstance(first, MemfdPipe)
        assert isinstance(second, Busy)
        assert "has 1 clients already; close one" in str(second)
        assert listener.clients == len(pipes) == 1
        first.close()
        pipes[0].close()
        assert listener.clients == 0


# --- the socket ---


def test_the_socket_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with Listener("demo", directory=tmp_path / "run") as listener:
        assert stat.S_IMODE(listener.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(listener.path.parent.stat().st_mode) == 0o700
    assert list((tmp_path / "run").iterdir()) == []
    listener.close()
    with pytest.raises(ClosedError, match="is closed"):
        listener.advance()


def test_a_living_engines_socket_is_refused(listener: Listener) -> None:
    with pytest.raises(Busy, match=f"the engine of pid {os.getpid()} listens at {listener.path}; use another name"):
        Listener("demo", directory=listener.path.parent)
    assert listener.path.exists()


def test_listeners_of_a_group_share_a_name_and_a_client_finds_each(tmp_path: Path) -> None:
    found: set[Path] = set()
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(Listener("demo", directory=tmp_path, group="port 1")) for _ in range(3)]
        assert len({listener.path for listener in listeners}) == 3
        for _ in range(200):
            found.add(sockets_of(tmp_path, "demo")[1])
        assert found == {listener.path for listener in listeners}
    assert list(tmp_path.iterdir()) == []


def test_a_name_belongs_to_one_group_or_to_one_listener(tmp_path: Path) -> None:
    of_a_group = Listener("demo", directory=tmp_path, group="port 1")
    for group in ("port 2", ""):
        with pytest.raises(Busy, match=f"the engine of pid {os.getpid()} listens at"):
            Listener("demo", directory=tmp_path, group=group)
    with Listener("demo_2", directory=tmp_path):
        of_a_group.close()
    with Listener("demo", directory=tmp_path), pytest.raises(Busy):
        Listener("demo", directory=tmp_path, group="port 1")
    assert list(tmp_path.iterdir()) == []


def test_of_a_group_only_those_that_live_are_found(tmp_path: Path, start: Callable[..., Any]) -> None:
    engine = start(DEAD_ENGINE.replace("directory=", "group='port 1', directory="), tmp_path)
    assert engine.stdout.readline() == "listening\n"
    with Listener("demo", directory=tmp_path, group="port 1") as listener:
        engine.kill()
        engine.wait()
        pipes: list[MemfdPipe] = []
        connecting = threading.Thread(
            target=lambda: pipes.extend(connect_pipe("demo", soon(), directories=[tmp_path]) for _ in range(20))
        )
        connecting.start()
        served = advance_until(listener, lambda: len(pipes) == 20)
        connecting.join()
        for pipe in (*pipes, *served):
            pipe.close()
        with Listener("demo", directory=tmp_path, group="port 1") as replacing:
            assert len(list(tmp_path.glob("*.sock"))) == 2
            assert replacing.path != listener.path


def test_another_processs_socket_is_refused_while_it_lives_and_replaced_afterwards(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    engine = start(DEAD_ENGINE, tmp_path)
    assert engine.stdout.readline() == "listening\n"
    with pytest.raises(Busy, match=f"the engine of pid {engine.pid} listens"):
        Listener("demo", directory=tmp_path)
    engine.kill()
    engine.wait()
    assert socket_path(tmp_path, "demo").exists()
    with pytest.raises(NotReachable):
        connect_pipe("demo", Deadline(0), directories=[tmp_path])
    with Listener("demo", directory=tmp_path) as listener:
        knock(listener.path).close()
    assert list(tmp_path.iterdir()) == []


def test_dead_engines_sockets_can_be_cleaned_up_and_nothing_else(tmp_path: Path, start: Callable[..., Any]) -> None:
    engine = start(DEAD_ENGINE, tmp_path)
    assert engine.stdout.readline() == "listening\n"
    (tmp_path / "file.sock").touch()
    with Listener("mine", directory=tmp_path):
        assert remove_stale_sockets([tmp_path, tmp_path / "missing"]) == []
        engine.kill()
        engine.wait()
        assert remove_stale_sockets([tmp_path]) == [tmp_path / "demo.sock"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file.sock", "mine.sock", "mine.sock.lock"]


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
    with pytest.raises(ConfigError, match=r"not a directory that only you can enter \(owner \d+, mode 0755\); .*chmod"):
        private_directory(tmp_path / "open")
    with pytest.raises(ConfigError, match="not a directory that only you can enter"):
        private_directory(tmp_path / "link")
    with pytest.raises(ConfigError, match="cannot be used for sockets"):
        private_directory(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be used for sockets"):
        private_directory(tmp_path / "no" / "where")


@pytest.mark.parametrize("length", [1, 80, 200])
def test_a_name_of_any_length_has_a_socket_that_can_be_bound(tmp_path: Path, length: int) -> None:
    with Listener("n" * length, directory=tmp_path) as listener:
        knock(listener.path).close()
        assert listener.path == socket_path(tmp_path, "n" * length)
    assert socket_path(tmp_path, "n" * 200) != socket_path(tmp_path, "n" * 199 + "m")


def test_a_directory_too_deep_for_sockets_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 107 bytes; set XDG_RUNTIME_DIR"):
        socket_path(Path("/" + "deep/" * 30), "demo")


# --- hostile clients ---


@pytest.mark.parametrize(
    "message",
    [b"", b"x", b"LRRV", b"GET / HTTP/1.1\r\n\r\n", bytes(8), bytes(9), ClientHello().to_bytes() * 2],
)
def test_a_wrong_hello_drops_that_client_alone(
    listener: Listener, connect: Callable[..., tuple[MemfdPipe, MemfdPipe]], message: bytes
) -> None:
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
        pipes: list[MemfdPipe] = []
        listener.advance()
        assert listener.patience_ns is not None
        pipes += advance_until(listener, lambda: listener.patience_ns is None)
        assert len(pipes) == (len(message) == 8 and message[:6] == b"LRRV\x01\x00")
        for pipe in pipes:
            pipe.close()


def test_another_version_is_refused_with_both_versions(listener: Listener) -> None:
    with knock(listener.path) as client:
        client.send(ClientHello(version=7).to_bytes())
        listener.advance()
        listener.advance()
        answer = ServerHello.of(client.recv(1024))
        assert answer.status == RemoteProtocolError.wire_code
        assert "speaks version 7 of the handshake, the engine 1; install" in answer.reason
        advance_until(listener, lambda: hung_up(client))


def test_a_client_that_says_nothing_is_dropped_in_time(listener: Listener) -> None:
    with knock(listener.path) as silent:
        listener.advance()
        patience = listener.patience_ns
        assert patience is not None
        assert 0 < patience <= 100_000_000
        advance_until(listener, lambda: hung_up(silent))
    assert listener.patience_ns is None


def test_many_silent_clients_do_not_keep_an_honest_one_out(
    tmp_path: Path,
) -> None:
    with Listener("demo", directory=tmp_path, hello_timeout_s=30) as listener:
        silent: list[socket.socket] = []
        for _ in range(100):
            silent.append(knock(listener.path))
            listener.advance()
        assert sum(hung_up(connection) for connection in silent) >= 60
        met: list[MemfdPipe] = []
        thread = threading.Thread(target=lambda: met.append(connect_pipe("demo", Deadline(10), directories=[tmp_path])))
        thread.start()
        for pipe in advance_until(listener, lambda: bool(met)):
            pipe.close()
        thread.join()
        met[0].close()
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


def test_no_descriptor_for_a_client_pauses_the_listener_and_it_goes_on(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Empty:
        def __init__(self, listener: socket.socket) -> None:
            self.listener = listener
            self.refusals = 0

        def __getattr__(self, name: str) -> object:
            return getattr(self.listener, name)

        def accept(self) -> object:
            self.refusals += 1
            if self.refusals == 1:
                raise OSError(24, "Too many open files")
            return self.listener.accept()

    monkeypatch.setattr(listener, "_listener", Empty(listener._listener))  # pyright: ignore[reportPrivateUsage]
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
        listener.advance()
        assert "cannot take a client now" in caplog.text
        assert listener.patience_ns is not None
        pipes: list[MemfdPipe] = []
        until = time.monotonic() + 10
        while not pipes and time.monotonic() < until:
            pipes = listener.advance()
            time.sleep(0.005)
        pipes[0].close()


# --- hostile engines ---


class FakeEngine:
    """Listens where an engine would and answers what it is told."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()

    def answer(self, message: bytes, fds: list[int]) -> None:
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(64)
            socket.send_fds(connection, [message], fds)
        self.listener.close()


def answered(tmp_path: Path, message: bytes, fds: list[int]) -> RemoteProtocolError:
    """Return what `connect_pipe` says to an engine that answers so."""
    engine = FakeEngine(tmp_path / "demo.sock")
    thread = threading.Thread(target=engine.answer, args=(message, fds))
    thread.start()
    with pytest.raises(RemoteProtocolError) as caught:
        connect_pipe("demo", Deadline(10), directories=[tmp_path])
    thread.join()
    return caught.value


def test_an_answer_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "is no hello of an engine; something else listens there" in str(answered(tmp_path, b"hello", []))


def test_missing_descriptors_are_refused(tmp_path: Path) -> None:
    message = ServerHello(0, 4096).to_bytes()
    assert "the engine sent 0 descriptors, expected 3" in str(answered(tmp_path, message, []))


@pytest.mark.parametrize("size", [0, 1024, 5000, 1 << 31])
def test_rings_of_an_impossible_size_are_refused(tmp_path: Path, size: int) -> None:
    with EventFd() as bell:
        error = answered(tmp_path, ServerHello(0, size).to_bytes(), [bell.fd] * 3)
    assert f"the engine offers rings of {size} bytes, expected a power of two" in str(error)


def test_memory_of_another_size_is_refused(tmp_path: Path) -> None:
    _, fd = make_pair(8192)
    try:
        with EventFd() as bell:
            error = answered(tmp_path, ServerHello(0, 4096).to_bytes(), [fd, bell.fd, bell.fd])
    finally:
        os.close(fd)
    assert "bytes for two rings of 4096, expected" in str(error)


def test_memory_that_the_engine_could_shrink_is_refused(tmp_path: Path) -> None:
    pair, sealed = make_pair(4096)
    fd = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, len(pair.mapping))
        with EventFd() as bell:
            error = answered(tmp_path, ServerHello(0, 4096).to_bytes(), [fd, bell.fd, bell.fd])
    finally:
        os.close(fd)
        os.close(sealed)
    assert "has the seals 0x0, expected at least" in str(error)


def test_our_memory_cannot_be_shrunk_grown_or_unsealed() -> None:
    pair, fd = make_pair(4096)
    try:
        for size in (0, len(pair.mapping) - 1, len(pair.mapping) + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
    finally:
        os.close(fd)


def test_a_bell_that_is_none_is_refused(tmp_path: Path) -> None:
    _, fd = make_pair(4096)
    try:
        with EventFd() as bell:
            error = answered(tmp_path, ServerHello(0, 4096).to_bytes(), [fd, bell.fd, fd])
    finally:
        os.close(fd)
    assert "where an eventfd belongs" in str(error)


def test_an_engine_that_hangs_up_is_not_there(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "demo.sock")

    def hang_up() -> None:
        connection, _ = engine.listener.accept()
        connection.close()
        engine.listener.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(NotReachable):
        connect_pipe("demo", Deadline(0.2), directories=[tmp_path])
    thread.join()


# --- after fork ---


def test_a_forked_child_has_no_listener_and_takes_nothing_away(listener: Listener) -> None:
    pid = os.fork()
    if not pid:
        try:
            listener.advance()
        except ClosedError as error:
            os._exit(0 if "belongs to the parent process; connect again after fork()" in str(error) else 1)
        finally:
            listener.close()
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
        pipes: list[MemfdPipe] = []
        while not pipes:
            pipes = listener.advance()
        pipes[0].close()
