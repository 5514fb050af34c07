"""A process of another user at an engine's files and socket, and one that poses as an engine: it gets nothing.

    python -m pytest tests/exhaustive/core/shm/test_foreign_peers.py    # as root

What it tries is what a hostile user of the same machine can: guess the names, read, write, connect, and listen.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.process import unique_name
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello
from lucky_transport.shm.listener.listener import Listener
from tests.exhaustive.core.shm.test_foreign_files import shared
from tests.support.foreign_files import foreign_uid, why_not
from tests.support.waiting import PATIENCE_S, until

__all__ = ["shared"]

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

_BECOME = "import os, socket, sys\nos.setgroups([]); os.setgid({uid}); os.setuid({uid})\n"
_OPEN = """
for path in sys.argv[1:]:
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            os.open(path, flags)
        except PermissionError:
            print("refused", path)
    try:
        os.unlink(path)
    except PermissionError:
        print("kept", path)
"""
_CONNECT = """
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.settimeout({patience})
try:
    connection.connect(sys.argv[1])
    connection.send({hello!r})
    message, fds, _, _ = socket.recv_fds(connection, 1024, 8)
    print(len(message), len(fds))
except (PermissionError, ConnectionResetError) as error:
    print(type(error).__name__)
"""
_LISTEN = """
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listener.listen()
print("ready", flush=True)
connection, _ = listener.accept()
connection.recv(100)
memory = os.memfd_create("rings")
socket.send_fds(connection, [b"LRRV" + bytes([2, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0])], [memory])
connection.recv(100)
"""


def as_another_user(code: str, *arguments: object) -> list[str]:
    """Run code as a user that is not root, and return its lines."""
    command = [sys.executable, "-c", _BECOME.format(uid=foreign_uid()) + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def listener(shared: Path) -> Iterator[Listener]:
    """A listener that is served meanwhile."""
    with Listener("one", directory=shared / "run") as one:
        ends = threading.Event()

        def serve() -> None:
            while not ends.wait(0.005):
                for pipe in one.advance():
                    pipe.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield one
        ends.set()
        thread.join()


def test_another_user_that_guesses_the_names_reads_writes_and_removes_nothing() -> None:
    name = unique_name()
    with (
        api.serve("echo", f"shm://{name}"),
        api.connect(f"shm://{name}") as client,
        client.camera.stream_camera("beside") as stream,
    ):
        next(stream)
        paths = sorted(Path("/dev/shm").glob(f"{name}*"))
        assert {path.name.removeprefix(name) for path in paths} >= {"", ".images.1", ".lock"}
        lines = as_another_user(_OPEN, *paths)
    assert lines == [line for path in map(str, paths) for line in (f"refused {path}",) * 2 + (f"kept {path}",)]


def test_another_user_cannot_reach_an_engines_socket_and_would_get_no_rings(listener: Listener) -> None:
    """As if an administrator had opened the directory and the socket: the engine asks the kernel who connects."""
    connect = _CONNECT.format(hello=ClientHello().to_bytes(), patience=PATIENCE_S)
    assert as_another_user(connect, listener.path) == ["PermissionError"]
    listener.path.parent.chmod(0o755)
    listener.path.chmod(0o666)
    assert as_another_user(connect, listener.path) in (["0 0"], ["ConnectionResetError"])
    assert listener.clients == 0
    connect_pipe("one", Deadline(PATIENCE_S), directories=[listener.path.parent]).close()


def test_a_client_refuses_an_engine_of_another_user_before_it_takes_anything(shared: Path) -> None:
    path = shared / "one.sock"
    command = [sys.executable, "-c", _BECOME.format(uid=foreign_uid()) + _LISTEN, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as planted:
        assert planted.stdout is not None
        until(path.exists)
        assert planted.stdout.readline() == "ready\n"
        with pytest.raises(RemoteProtocolError, match=f"belongs to user {foreign_uid()}"):
            connect_pipe("one", Deadline(PATIENCE_S), directories=[shared])
        planted.kill()
