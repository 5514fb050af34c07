"""Where the engine of a segment listens: a socket in a directory that only this user can enter.

Engines of one group share a name: each has a socket beside the others', and a client takes any of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from lucky_transport.config import runtime_directories
from lucky_transport.errors import Busy, ConfigError, SegmentError
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import process_name

#: `sockaddr_un` takes 108 bytes, the last one is 0.
_LONGEST = 107
_SUFFIX = ".sock"
#: Of the file beside a socket that says what listens there (`server_description.py`).
DESCRIPTION_SUFFIX = ".json"
_HASH = 16


def socket_path(directory: Path, name: str) -> Path:
    """Return the socket of segment `name`; a name too long for a socket's path is replaced by its hash.

    Raises ConfigError when the directory's own path is too long for any.
    """
    room = _LONGEST - len(os.fsencode(directory)) - 1 - len(_SUFFIX)
    if room < _HASH:
        raise ConfigError(
            f"a socket in {directory} would have a path of more than {_LONGEST} bytes",
            backend="shm",
            hint="set XDG_RUNTIME_DIR to a shorter path",
        )
    if len(name.encode()) > room:
        name = _hash(name)
    return directory / f"{name}{_SUFFIX}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]


def sockets_of(directory: Path, name: str) -> Iterator[Path]:
    """Yield the sockets of engines of segment `name`: of one alone, and then those of a group, in any order.

    The directory is read once the first one does not do. Raises ConfigError when its own path is too long for any.
    """
    alone, first = _names(directory, name)
    is_there = os.path.lexists(alone)
    if is_there:
        yield alone
    try:
        entries = os.listdir(directory)
    except OSError:
        if not is_there:
            yield alone
        return
    shared = [one for one in entries if one.startswith(first) and one.endswith(_SUFFIX)]
    random.shuffle(shared)
    for one in shared:
        yield directory / one


@lru_cache(maxsize=256)  # a program may connect for each call
def _names(directory: Path, name: str) -> tuple[Path, str]:
    """Return the socket of an engine alone, and how the names of those of a group begin."""
    return socket_path(directory, name), f"{_hash(name)}@"


def claim_socket(directory: Path, name: str, group: str = "") -> tuple[Path, lockfile.Lock]:
    """Return where this engine of segment `name` is to listen, and the lock of that place.

    group: of the engines that share the name; without one the name is this engine's alone. Raises Busy when a living
    engine that is not of the group has the name, ConfigError for a path that is too long, SegmentError for a lock file
    that is not this user's alone.
    """
    alone = socket_path(directory, name)
    lock = lockfile.acquire_engine(f"{alone}.lock")
    if lock is None:
        raise _busy(alone)
    is_kept = False  # by an engine alone; a group gives it back once it has found a place
    try:
        first = f"{_hash(name)}@{_hash(group)[:8]}."
        for other in sockets_of(directory, name):
            if other == alone:  # what a dead engine left: its lock is ours
                continue
            is_ours = group and other.name.startswith(first)
            if not is_ours and lockfile.holder(f"{other}.lock", lockfile.ENGINE) is not None:
                raise _busy(other)
        is_kept = not group
        if is_kept:
            return alone, lock
        places = (directory / f"{first}{number}{_SUFFIX}" for number in itertools.count())
        return next((path, own) for path in places if (own := lockfile.acquire(f"{path}.lock", lockfile.ENGINE)))
    finally:
        if not is_kept:
            lock.release(unlink=True)


def _busy(path: Path) -> Busy:
    owner = process_name(lockfile.holder(f"{path}.lock", lockfile.ENGINE) or 0)
    return Busy(f"the process of {owner} listens at {path}", backend="shm", hint="use another name")


def live_socket(name: str) -> Path | None:
    """Return a socket at which a living engine listens for segment `name`, in whatever namespace; None for none."""
    for directory in filter(is_private_directory, runtime_directories()):
        with contextlib.suppress(ConfigError, SegmentError):
            for path in sockets_of(directory, name):
                if lockfile.holder(f"{path}.lock", lockfile.ENGINE) is not None:
                    return path
    return None


def is_served_here(name: str) -> bool:
    """True while an engine of this process listens for segment `name`. Raises as `sockets_of` and `holder` do."""
    paths = (path for directory in runtime_directories() for path in sockets_of(directory, name))
    return any(lockfile.holder(f"{path}.lock", lockfile.ENGINE) == os.getpid() for path in paths)


def is_private_directory(directory: Path) -> bool:
    """True for a directory that is there and that only this user can enter; a link is none."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def private_directory(directory: Path) -> Path:
    """Return the directory, made with mode 0700 when it is not there.

    Raises ConfigError when it is a link, another user's or open to others.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        raise ConfigError(
            f"{directory} cannot be used for sockets: {error.strerror}",
            backend="shm",
            hint="set XDG_RUNTIME_DIR to a directory of yours",
        ) from error
    if not is_private_directory(directory):
        raise ConfigError(
            f"{directory} is not a directory that only you can enter "
            f"(owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
            backend="shm",
            hint=f"remove it, or run chmod 700 {directory}",
        )
    return directory


def remove_stale_sockets(directories: Sequence[Path] | None = None) -> list[Path]:
    """Remove what dead engines left, sockets, descriptions and lock files; return the sockets that it belongs to."""
    removed: list[Path] = []
    for directory in filter(is_private_directory, directories or runtime_directories()):
        described = {path.with_suffix("") for path in directory.glob(f"*{_SUFFIX}{DESCRIPTION_SUFFIX}")}
        for path in sorted({*directory.glob(f"*{_SUFFIX}"), *described}):
            lock = f"{path}.lock"  # a living engine holds it
            with contextlib.suppress(OSError, SegmentError):
                is_other = os.path.lexists(path) and not path.is_socket()
                if is_other or (held := lockfile.acquire(lock, lockfile.ENGINE)) is None:
                    continue
                try:
                    path.unlink(missing_ok=True)
                    Path(f"{path}{DESCRIPTION_SUFFIX}").unlink(missing_ok=True)
                    removed.append(path)
                finally:
                    held.release(unlink=True)
    return removed
