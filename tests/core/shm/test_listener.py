"""Any number of clients connect to one engine, and none of them can hurt it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Busy,
    ClosedError,
    RemoteProtocolError,
)
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.files.socket_path import DESCRIPTION_SUFFIX
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello, ServerHello
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.core.shm.knocking import advance_until, hung_up, knock

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


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


def test_a_client_whose_hello_is_there_is_let_in_as_it_is_accepted(listener: Listener) -> None:
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
        [pipe] = listener.advance()
        assert ServerHello.of(client.recv(1024)).status == 0
        pipe.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=st.binary(min_size=1, max_size=64) | st.binary(max_size=12).map(lambda rest: b"LRRV" + rest))
def test_no_hello_breaks_the_listener(tmp_path: Path, message: bytes) -> None:
    with Listener("demo", directory=tmp_path, ring_bytes=4096) as listener, knock(listener.path) as stranger:
        stranger.send(message)
        pipes = listener.advance()
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


class Failing:
    """The socket of a listener whose first `accept` raises `error`."""

    def __init__(self, listener: socket.socket, error: OSError) -> None:
        self.listener = listener
        self.errors = [error]

    def __getattr__(self, name: str) -> object:
        return getattr(self.listener, name)

    def accept(self) -> object:
        if self.errors:
            raise self.errors.pop()
        return self.listener.accept()


def test_a_client_that_leaves_before_it_is_accepted_keeps_no_other_waiting(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(listener._listener, ConnectionAbortedError())  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(listener, "_listener", failing)
    with knock(listener.path) as client:
        client.send(ClientHello().to_bytes())
        pipes = [*listener.advance(), *listener.advance()]
        assert len(pipes) == 1
        assert "cannot take a client" not in caplog.text
        pipes[0].close()


def test_no_descriptor_for_a_client_pauses_the_listener_and_it_goes_on(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(listener._listener, OSError(24, "Too many open files"))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(listener, "_listener", failing)
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


def test_a_listener_that_cannot_be_listed_says_so_and_lets_clients_in(
    listener: Listener, connect: Callable[..., tuple[MemfdPipe, MemfdPipe]], caplog: pytest.LogCaptureFixture
) -> None:
    Path(f"{listener.path}{DESCRIPTION_SUFFIX}").mkdir()
    with caplog.at_level(logging.INFO, "lucky_transport"):
        listener.describe(ServerDescription("weather", os.getpid()))
    assert f"the server at {listener.path} is not listed: " in caplog.text
    client, engine = connect()
    assert client.try_push(b"let in")
    assert engine.try_pop() == b"let in"


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
