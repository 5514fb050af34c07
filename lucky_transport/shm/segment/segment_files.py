"""The files of segments on this host: how they are named, mapped and found, and removed when their engine is gone."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError, SegmentError
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import STOPPED, process_name
from lucky_transport.shm.files.lockfile import DIRECTORY, lock_path_of
from lucky_transport.shm.files.mapping import Mapping, map_private
from lucky_transport.shm.files.private_file import open_private, remove_private
from lucky_transport.shm.files.socket_path import remove_stale_sockets
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import HEADER_BYTES, MAGIC
from lucky_transport.shm.slot_files.image_file import SUFFIX, remove_images

#: Shared-memory names are file names; macOS allows 30 characters, Linux 255.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def segment_path(name: str, directory: Path) -> Path:
    """Return the file of the segment `name`. Raises ConfigError for a name that no segment can have."""
    taken = name.startswith(".") or name.endswith(".lock") or SUFFIX.search(name)
    if not _NAME.fullmatch(name) or taken:
        raise ConfigError(
            f"shared-memory name {name!r}", hint="use letters, digits, '_', '-' and '.', e.g. shm://lucky_demo"
        )
    return directory / name


def map_segment(path: Path) -> Mapping | None:
    """Map the file, None when it is absent or still empty."""
    try:
        too_short = f", a segment has at least {HEADER_BYTES}"
        mapping = map_private(path, HEADER_BYTES, too_short, "use another name")
    except FileNotFoundError:
        return None
    magic = header.get(mapping, "magic")
    if magic not in (0, MAGIC):
        raise SegmentError(
            f"{path}: magic is {magic:#x}, expected {MAGIC:#x} ('LRBC')", backend="shm", hint="use another name"
        )
    return mapping


def remove_dead(path: Path) -> None:
    """Remove a segment whose engine is gone; refuse to remove a file that is no segment."""
    try:
        start = _first_bytes(path)
    except FileNotFoundError:
        return
    if start not in (b"", b"\0\0\0\0", MAGIC.to_bytes(4, "little")):
        raise SegmentError(f"{path} exists and is no segment of ours", backend="shm", hint="use another name")
    remove_images(path)
    remove_private(path)


def _first_bytes(path: Path) -> bytes:
    fd = open_private(path, writes=False)
    try:
        return os.pread(fd, 4, 0)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment seen on this host. engine, client: what messages call that side, "" when it is gone; its pid is as it
    calls itself, 0 when it is gone.
    """

    name: str
    path: Path
    size_bytes: int
    num_envs: int
    engine_pid: int
    client_pid: int
    frame_seq: int
    engine: str
    client: str

    @property
    def stale(self) -> bool:
        """True when its engine is gone."""
        return not self.engine

    @property
    def stopped(self) -> bool:
        """True when its engine waits for SIGCONT."""
        return self.engine.endswith(STOPPED)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"path": str(self.path), "stale": self.stale, "stopped": self.stopped}


def find(directory: Path = DIRECTORY, name: str = "") -> list[SegmentInfo]:
    """Return the segments of this user in `directory`, by name, or the one of that name alone; what others planted
    there is passed over.
    """
    found: list[SegmentInfo] = []
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    for path in (directory / one for one in names if name in ("", one)):
        with contextlib.suppress(OSError, SegmentError, ValueError):
            if path.suffix == ".lock" or _first_bytes(path) != MAGIC.to_bytes(4, "little"):
                continue
            mapping = map_segment(path)
            if mapping is None:
                continue
            engine_pid, engine = _side(mapping, path, lockfile.ENGINE, "server")
            client_pid, client = _side(mapping, path, lockfile.CLIENT, "client")
            envs, frames = header.get(mapping, "num_envs"), header.get(mapping, "frame_seq")
            size = min(len(mapping), header.get(mapping, "total_size"))
            found.append(SegmentInfo(path.name, path, size, envs, engine_pid, client_pid, frames, engine, client))
    return found


def _side(mapping: Mapping, path: Path, byte: int, side: str) -> tuple[int, str]:
    """Return the pid and the name of who holds a place, (0, "") for none.

    A process of another pid namespace has no pid here; the header has the one that it has there.
    """
    pid = lockfile.holder(lock_path_of(path), byte)
    if pid is None:
        return 0, ""
    if pid:
        return pid, process_name(pid)
    pid = header.get(mapping, f"{side}_pid")
    return pid, process_name(pid, header.get(mapping, f"{side}_pid_namespace") or -1)


def of_other_users(directory: Path = DIRECTORY) -> dict[str, int]:
    """Return name -> user id of the segments of other users, which cannot be mapped; known by their lock files."""
    locked = [path.with_suffix("") for path in sorted(directory.glob("*.lock"))]
    found: dict[str, int] = {}
    for path in locked:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink() and (owner := path.lstat().st_uid) != os.geteuid():
                found[path.name] = owner
    return found


def remove_stale(directory: Path = DIRECTORY) -> list[SegmentInfo]:
    """Remove the segments of dead engines, with their lock files, and return what was removed.

    In the machine's own directory the sockets of dead engines go too.
    """
    removed: list[SegmentInfo] = []
    for one in find(directory):
        lock = lock_path_of(one.path)
        with contextlib.suppress(OSError, SegmentError):
            if one.stale and (held := lockfile.acquire(lock, lockfile.ENGINE)):
                remove_images(one.path)
                if remove_private(one.path):
                    removed.append(one)
                held.release(unlink=True)
    if directory == DIRECTORY:
        remove_stale_sockets()
    return removed
