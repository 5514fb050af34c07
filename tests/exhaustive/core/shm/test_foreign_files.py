"""Files that another user made under our names: refused by name and owner, never trusted, never removed. Its processes
guess the names, read, write, connect and listen: they get nothing.

    python -m pytest tests/exhaustive/{core,plugins}/shm/test*foreign_files.py    # as root

The other user is a process that gives root up for a user id that is free on this machine.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError, SegmentError
from lucky_transport.process import unique_name
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.socket_path import remove_stale_sockets
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.handshake import ClientHello
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.segment import segment, segment_files
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.slot_files.image_file import ImageFile, remove_images
from lucky_transport.shm.slot_files.image_store import ImageStores
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.command import invoke, python
from tests.support.foreign_files import KINDS, MakeForeignFile, as_another_user, foreign_uid, make, why_not
from tests.support.resources import descriptors_of
from tests.support.waiting import PATIENCE_S, beside, until

SPEC = BatchSpec("toy", 3, ArraySpec("float32", (5,)), ArraySpec("float32", (2,), -1.0, 1.0))
RING = 4096


def _attach(directory: Path) -> None:
    segment.open_segment("one", Deadline(0), directory=directory)


def _create(directory: Path) -> None:
    segment.create("one", SPEC, ring_bytes=RING, directory=directory)


#: What opens a file -> the name under which it looks for it.
OPENINGS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "attach": ("one", _attach),
    "create": ("one", _create),
    "create, lock": ("one.lock", _create),
    "lock": ("one.lock", lambda directory: lockfile.acquire(f"{directory}/one.lock", lockfile.CLIENT)),
    "holder": ("one.lock", lambda directory: lockfile.holder(f"{directory}/one.lock", lockfile.CLIENT)),
    "images": ("one.images.1", lambda directory: ImageFile.open(directory / "one", 1)),
}


#: All kinds for one opening, and for the others those that are opened at all: what they open it by is the same.
CASES = [(opening, kind) for opening in OPENINGS for kind in KINDS if opening == "attach" or kind in ("file", "fifo")]


@pytest.mark.parametrize(("opening", "kind"), CASES)
def test_a_file_of_another_user_is_refused_with_its_path_owner_kind_and_mode(
    opening: str, kind: str, shared: Path, make_foreign_file: MakeForeignFile
) -> None:
    name, use = OPENINGS[opening]
    foreign = shared / name
    mode = make_foreign_file(foreign, kind)
    with pytest.raises(SegmentError) as raised:
        use(shared)
    text = str(raised.value)
    assert str(foreign) in text
    assert f"user {foreign_uid()}" in text
    assert f"mode {mode:04o}" in text
    assert {"file": "regular file", "fifo": "FIFO"}.get(kind, kind) in text
    assert raised.value.hint in text
    assert raised.value.hint
    assert foreign.lstat().st_uid == foreign_uid()
    assert not descriptors_of(str(shared))


@pytest.mark.parametrize(("opening", "kind"), CASES)
def test_our_own_file_of_another_kind_or_mode_is_refused_too(opening: str, kind: str, tmp_path: Path) -> None:
    name, use = OPENINGS[opening]
    make(tmp_path / name, kind, b"", 0o644)
    with pytest.raises(SegmentError, match=re.escape(str(tmp_path / name))) as raised:
        use(tmp_path)
    assert "mode 0600" in str(raised.value)


def test_a_planted_segment_is_not_read_even_as_a_perfect_copy(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    with _made(shared) as one:
        make_foreign_file(shared / "two", "file", one.path.read_bytes())
        with pytest.raises(SegmentError, match=f"{shared}/two .*user {foreign_uid()}"):
            segment.open_segment("two", Deadline(0), directory=shared)
        assert [found.name for found in segment_files.find(shared)] == ["one"]


@contextmanager
def _made(directory: Path) -> Iterator[Segment]:
    made = segment.create("one", SPEC, ring_bytes=RING, directory=directory)
    made.publish_ready()
    yield made
    made.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_plant_is_passed_over_and_left(kind: str, shared: Path, make_foreign_file: MakeForeignFile) -> None:
    planted = {"two", "three", "three.lock", "one.images.1", "one.images.7"}
    with _made(shared) as one:
        copy = one.path.read_bytes()
        for name in planted:
            make_foreign_file(shared / name, "file" if name == "three" else kind, copy)
        assert [found.name for found in segment_files.find(shared)] == ["one"]
        assert segment_files.remove_stale(shared) == []
        file = ImageStores(shared / "one").open().make(10)
        assert file is not None
        assert (file.number, stat.S_IMODE(file.path.stat().st_mode)) == (2, 0o600)
        file.unlink()
    with _made(shared):
        pass
    remove_images(shared / "one")
    assert {path.name for path in shared.iterdir()} == planted


def test_a_dead_engines_segment_with_a_foreign_lock_is_left(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    one = segment.create("one", SPEC, ring_bytes=RING, directory=shared)
    one.publish_ready()
    copy = one.path.read_bytes()
    one.unlink()
    own = shared / "one"
    own.touch(0o600)
    own.write_bytes(copy)
    make_foreign_file(shared / "one.lock", "file")
    assert segment_files.remove_stale(shared) == []
    assert own.exists()


def test_sockets_in_another_users_directory_are_not_touched(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    make_foreign_file(shared / "run", "directory")
    make_foreign_file(shared / "run" / "one.sock", "socket")
    assert remove_stale_sockets([shared / "run"]) == []
    assert [path.name for path in (shared / "run").iterdir()] == ["one.sock"]


def test_files_are_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o377)
    try:
        with _made(tmp_path) as one:
            assert segment.open_segment("one", Deadline(0), directory=tmp_path).spec == SPEC
            assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(os.stat(one.lock_path).st_mode) == 0o600
    finally:
        os.umask(before)


def test_ls_and_doctor_pass_over_what_others_planted(make_foreign_file: MakeForeignFile) -> None:
    """In the machine's own directory, where every user may make files."""
    name = unique_name()
    paths = [Path(f"/dev/shm/{name}{suffix}") for suffix in ("", ".lock", ".images.1")]
    try:
        for path, kind in zip(paths, ("fifo", "file", "directory"), strict=True):
            make_foreign_file(path, kind)
        for command in (["ls", "--json"], ["doctor", "--fix", "--json"]):
            ran = invoke(*command)
            assert isinstance(ran.exception, SystemExit | None), ran.exception  # anything else would be a traceback
            assert name not in ran.output
        ran = invoke("inspect", f"shm://{name}")
        assert ran.exit_code == 1
        assert f"user {foreign_uid()}" in ran.output
        assert all(path.lstat().st_uid == foreign_uid() for path in paths)
    finally:
        for path in paths:
            path.rmdir() if path.is_dir() else path.unlink()


_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from lucky_transport.deadline import Deadline
from lucky_transport.errors import SegmentError
from lucky_transport.shm.segment import segment, segment_files
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
os.setgroups([]); os.setgid(54000); os.setuid(54000)
directory = Path(sys.argv[1])
for use in (
    lambda: segment.open_segment("one", Deadline(0), directory=directory),
    lambda: segment.create("one", BatchSpec("toy", 1, ArraySpec(), ArraySpec()), directory=directory),
):
    try:
        use()
    except SegmentError as error:
        print(error)
assert segment_files.find(directory) == segment_files.remove_stale(directory) == []
"""


def test_a_user_without_rights_is_told_whose_file_it_is(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    """Root may open everything; others get EACCES first."""
    make_foreign_file(shared / "one", "file", b"secret")
    (shared / "one").chmod(0o600)
    ran = python("-c", _AS_ANOTHER_USER, shared)
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert f"{shared}/one is a regular file of user {foreign_uid()} (no name) with mode 0600" in line
        assert "user 54000" in line


# --- a process of another user at an engine's files and socket, and one that poses as an engine: it gets nothing ---

needs_root = pytest.mark.skipif(bool(why_not()), reason=why_not())
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
listener.listen()
os.chmod(sys.argv[1], 0o666)
connection, _ = listener.accept()
try:
    connection.recv(100)
    memory = os.memfd_create("rings")
    socket.send_fds(connection, [b"LRRV" + bytes([2, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0])], [memory])
    connection.recv(100)
except OSError:
    pass  # the client has left
"""


@pytest.fixture
def listener(shared: Path) -> Iterator[Listener]:
    """A listener that is served meanwhile."""
    with Listener("one", directory=shared / "run") as one:
        ends = threading.Event()

        def serve() -> None:
            while not ends.wait(0.005):
                for pipe in one.advance():
                    pipe.close()

        with beside(serve):
            yield one
            ends.set()


@needs_root
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


@needs_root
def test_another_user_cannot_reach_an_engines_socket_and_would_get_no_rings(listener: Listener) -> None:
    """As if an administrator had opened the directory and the socket: the engine asks the kernel who connects."""
    connect = _CONNECT.format(hello=ClientHello().to_bytes(), patience=PATIENCE_S)
    assert as_another_user(connect, listener.path) == ["PermissionError"]
    listener.path.parent.chmod(0o755)
    listener.path.chmod(0o666)
    assert as_another_user(connect, listener.path) in (["0 0"], ["ConnectionResetError"])
    assert listener.clients == 0
    connect_pipe("one", Deadline(PATIENCE_S), directories=[listener.path.parent]).close()


@needs_root
def test_a_client_refuses_an_engine_of_another_user_before_it_takes_anything(shared: Path) -> None:
    path = shared / "one.sock"
    with ThreadPoolExecutor(1) as pool:
        planted = pool.submit(as_another_user, _LISTEN, path)
        until(lambda: path.exists() and path.stat().st_mode & 0o666 == 0o666)
        with pytest.raises(RemoteProtocolError, match=f"belongs to user {foreign_uid()}"):
            connect_pipe("one", Deadline(PATIENCE_S), directories=[shared])
        assert planted.result(PATIENCE_S) == []
