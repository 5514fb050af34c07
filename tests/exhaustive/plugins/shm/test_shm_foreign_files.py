"""Another user's files under an engine's names, met by whole clients and engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.errors import NotReachable, SegmentError
from lucky_transport.process import unique_name
from tests.support.foreign_files import KINDS, MakeForeignFile, foreign_uid

SHM = Path("/dev/shm")


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A path in the machine's directory, whatever lies there is removed after the test."""
    path = SHM / unique_name()
    yield path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _connect(name: str) -> api.Transport:
    return api.open_transport(f"shm://{name}", load_settings({"connect_timeout_s": 0.5}))


def test_a_client_does_not_drive_a_segment_that_another_user_planted(
    foreign: Path, make_foreign_file: MakeForeignFile
) -> None:
    """The copy is perfect and its engine lives: the other user's would answer and read the actions."""
    with api.serve("toy", f"shm://{unique_name()}") as served:
        copy = (SHM / served.endpoints[0].address).read_bytes()
        make_foreign_file(foreign, "file", copy)
        with pytest.raises(SegmentError, match=f"{foreign} is a regular file of user {foreign_uid()}"):
            _connect(foreign.name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_does_not_start_in_the_place_of_another_users_file(
    kind: str, foreign: Path, make_foreign_file: MakeForeignFile
) -> None:
    make_foreign_file(foreign, kind)
    with pytest.raises(SegmentError, match=f"of user {foreign_uid()}.*use another name"):
        api.serve("toy", f"shm://{foreign.name}")
    assert foreign.lstat().st_uid == foreign_uid()
    assert not (SHM / f"{foreign.name}.lock").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_is_refused_by_a_foreign_lock_file(
    kind: str, foreign: Path, make_foreign_file: MakeForeignFile
) -> None:
    # Without its lock the segment looks like a dead engine's: the clean-up of a test beside this one may remove it.
    for _ in range(5):
        make_foreign_file(foreign, kind)
        with suppress(NotReachable), api.serve("toy", f"shm://{unique_name()}") as served:
            name = served.endpoints[0].address
            lock = SHM / f"{name}.lock"
            lock.unlink()  # no directory takes a file's place
            foreign.rename(lock)  # at once: an engine that starts beside this test takes the lock of a dead one
            try:
                with pytest.raises(SegmentError, match=f"{lock} is .* of user {foreign_uid()}"):
                    _connect(name)
                return
            finally:
                lock.rmdir() if kind == "directory" else lock.unlink()
    pytest.fail("the segment was gone five times")
