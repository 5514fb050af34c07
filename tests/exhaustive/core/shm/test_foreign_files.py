"""Files that another user made under our names: refused by name and owner, never trusted, never removed.

    python -m pytest tests/exhaustive/{core,plugins}/shm/test*foreign_files.py    # as root

The other user is a process that gives root up for a user id that is free on this machine.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import SegmentError
from lucky_transport.process import unique_name
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.socket_path import remove_stale_sockets
from lucky_transport.shm.segment import segment, segment_files
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.slot_files.image_file import ImageFile, remove_images
from lucky_transport.shm.slot_files.image_store import ImageStores
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.foreign_files import KINDS, MakeForeignFile, foreign_uid, make
from tests.support.resources import descriptors_of

SPEC = BatchSpec("toy", 3, ArraySpec("float32", (5,)), ArraySpec("float32", (2,), -1.0, 1.0))
RING = 4096


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which every user may make files, as /dev/shm is."""
    directory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="lucky-test-"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


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


def test_a_planted_segment_is_not_read_even_when_it_is_a_perfect_copy(
    shared: Path, make_foreign_file: MakeForeignFile
) -> None:
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
def test_what_others_planted_beside_a_segment_is_passed_over_and_left(
    kind: str, shared: Path, make_foreign_file: MakeForeignFile
) -> None:
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


def test_a_dead_engines_segment_with_a_foreign_lock_is_left_alone(
    shared: Path, make_foreign_file: MakeForeignFile
) -> None:
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


def test_sockets_in_a_directory_of_another_user_are_not_touched(
    shared: Path, make_foreign_file: MakeForeignFile
) -> None:
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
            ran = subprocess.run(["lucky-transport", *command], capture_output=True, text=True, timeout=60)
            assert "Traceback" not in ran.stderr
            assert name not in ran.stdout
        ran = subprocess.run(
            ["lucky-transport", "inspect", f"shm://{name}"], capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 1
        assert f"user {foreign_uid()}" in ran.stderr
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
    ran = subprocess.run([sys.executable, "-c", _AS_ANOTHER_USER, str(shared)], capture_output=True, text=True)
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert f"{shared}/one is a regular file of user {foreign_uid()} (no name) with mode 0600" in line
        assert "user 54000" in line
