"""A client that connects finds its engine, or says what is wrong with it, and a hostile engine cannot hurt it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, NotReachable, PeerTimeout, RemoteProtocolError
from lucky_transport.process import unique_name
from lucky_transport.shm.files.server_description import ServerDescription, describe
from lucky_transport.shm.files.socket_path import socket_path
from lucky_transport.shm.listener.connecting import connect_pipe, pipe_steps
from lucky_transport.shm.listener.handshake import LONGEST_SERVER_HELLO, ClientHello, ServerHello, make_pair
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.core.shm.conftest import advance_until
from tests.support.waiting import PATIENCE_S, beside, call_later


@given(hello=st.builds(ClientHello, st.integers(0, 0xFFFF), st.booleans()))
def test_a_hello_comes_back_as_it_was_said(hello: ClientHello) -> None:
    assert ClientHello.of(hello.to_bytes()) == hello


@given(
    answer=st.builds(
        ServerHello,
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.text(max_size=100),
        st.integers(0, 9),
        st.integers(0, 2**32 - 1),
        st.booleans(),
    )
)
def test_an_answer_comes_back_as_it_was_said(answer: ServerHello) -> None:
    assert ServerHello.of(answer.to_bytes()) == answer


def test_a_reason_too_long_for_an_answer_is_cut() -> None:
    message = ServerHello(9, 0, "é" * 2000).to_bytes()
    assert len(message) == LONGEST_SERVER_HELLO
    assert ServerHello.of(message).reason.startswith("éé")


@given(message=st.binary(max_size=40))
def test_other_bytes_are_neither(message: bytes) -> None:
    for kind in (ClientHello, ServerHello):
        with pytest.raises(RemoteProtocolError, match="is no "):
            kind.of(b"X" + message)


def test_unknown_features_are_ignored_and_arenas_are_one() -> None:
    assert ClientHello.of(b"LRRV\x02\x00\xff\xff") == ClientHello(2)
    assert ClientHello.of(b"LRRV\x02\x00\x01\x00") == ClientHello(2, arenas=False)
    without = b"LRRV\x02\x00\x01\x00" + bytes(4) + (4096).to_bytes(4, "little")
    assert ServerHello.of(without) == ServerHello(0, 4096, arena_bytes=0)
    assert ServerHello(0, 4096).to_bytes() == without


pytestmark = pytest.mark.usefixtures("no_descriptor_left")


def test_nobody_there_is_said_with_the_places_and_the_remedy(tmp_path: Path) -> None:
    name, other = unique_name(), tmp_path / "other"
    with pytest.raises(
        NotReachable, match=rf"no engine listens at {tmp_path}/{name}.sock or {other}/{name}.sock .*start"
    ):
        connect_pipe(name, Deadline(0.01), directories=[tmp_path, other])


def test_where_a_server_may_listen_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotReachable) as absent:
        connect_pipe("weather", Deadline(0), directories=[tmp_path], or_server=True)
    assert str(absent.value).startswith(
        f"no server or engine listens at shm://weather ({tmp_path}/weather.sock); start it: a server of your own by "
        "`lucky-transport run --transport shm --serve ADDRESS=shm://weather -- COMMAND`, an engine by "
    )
    describe(socket_path(tmp_path, "weather"), ServerDescription("weather", 4711, target="127.0.0.1:50071")._asdict())
    with pytest.raises(NotReachable, match=r"^the server of pid 4711 .* is gone; .*--serve 127.0.0.1:50071=shm://weat"):
        connect_pipe("weather", Deadline(0), directories=[tmp_path], or_server=True)


@pytest.mark.parametrize("left", [(), ("",), ("", ".lock")], ids=["nothing", "a socket", "a socket and its lock"])
def test_who_wants_an_engine_at_once_waits_only_where_one_may_come_soon(left: tuple[str, ...], tmp_path: Path) -> None:
    path = socket_path(tmp_path, "one")
    if left:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nobody_listens:
            nobody_listens.bind(str(path))
    for suffix in left[1:]:
        Path(f"{path}{suffix}").touch(0o600)
    steps = pipe_steps("one", Deadline(PATIENCE_S), directories=[tmp_path], at_once=True)
    if left == ("",):  # of what has no lock nobody can tell
        assert next(steps).connection is None
    else:
        with pytest.raises(NotReachable):
            next(steps)


def test_a_client_may_come_before_the_engine(tmp_path: Path) -> None:
    met: list[MemfdPipe] = []
    with beside(lambda: met.append(connect_pipe("demo", Deadline(10), directories=[tmp_path]))):
        time.sleep(0.02)
        with Listener("demo", directory=tmp_path) as listener:
            for pipe in advance_until(listener, lambda: bool(met)):
                pipe.close()
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


def offer(rings: int = 4096, arenas: int = 0) -> bytes:
    return ServerHello(0, rings, arena_bytes=arenas).to_bytes()


@pytest.fixture
def descriptors() -> Iterator[dict[str, int]]:
    """What an engine may send with its hello, by name."""
    (rings, fd), (_, larger) = make_pair(4096), make_pair(8192)
    unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, len(rings.mapping))
    yield {"rings": fd, "larger": larger, "unsealed": unsealed}
    for each in (fd, larger, unsealed):
        os.close(each)


#: (the hello of an engine, the descriptors that come with it, the words of the refusal)
OFFERS = [
    (b"hello", "", "is no hello of an engine; something else listens there"),
    (offer(), "", "sent 0 descriptors, expected 1"),
    *((offer(size), "rings", f"rings of {size} bytes, expected a power") for size in (0, 1024, 5000, 1 << 31)),
    *(
        (offer(arenas=size), "rings", f"arenas of {size} bytes, expected a multiple of 65536 up to 2147483648")
        for size in (1, (64 << 10) + 1, (1 << 31) + (64 << 10))
    ),
    (offer(arenas=64 << 10), "rings", "bytes for two rings of 4096 with arenas of 65536, expected"),
    (offer(), "larger", "bytes for two rings of 4096, expected"),
    (offer(), "unsealed", "has the seals 0x0, expected at least"),
    (offer(), "rings larger", "sent 2 descriptors, expected 1"),
]


@pytest.mark.parametrize(("hello", "sent", "words"), OFFERS)
def test_an_offer_that_no_engine_makes_is_refused(
    hello: bytes, sent: str, words: str, tmp_path: Path, descriptors: dict[str, int]
) -> None:
    engine = FakeEngine(tmp_path / "demo.sock")
    offered = [descriptors[name] for name in sent.split()]
    with beside(engine.answer, hello, offered), pytest.raises(RemoteProtocolError, match=words):
        connect_pipe("demo", Deadline(10), directories=[tmp_path])


def test_an_engine_that_hangs_up_is_asked_again_though_the_deadline_is_over(tmp_path: Path) -> None:
    """As one does that is crowded: it listens, so it is given the time of an answer."""
    engine = FakeEngine(tmp_path / "demo.sock")

    def answer() -> None:
        for _ in range(3):
            engine.listener.accept()[0].close()
        engine.answer(ServerHello(Busy("").wire_code, 0, "heard").to_bytes(), [])

    with beside(answer), pytest.raises(Busy, match="heard"):
        connect_pipe("demo", Deadline(0), directories=[tmp_path], answer_s=PATIENCE_S)


def test_our_memory_cannot_be_shrunk_grown_or_unsealed(descriptors: dict[str, int]) -> None:
    whole = os.fstat(descriptors["rings"]).st_size
    for size in (0, whole - 1, whole + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptors["rings"], size)
