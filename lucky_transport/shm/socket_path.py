"""Where the engine of a segment listens: a socket in a directory that only this user can enter."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from lucky_transport.config import runtime_directories
from lucky_transport.errors import ConfigError, SegmentError
from lucky_transport.shm import lockfile

__all__ = ["live_socket", "private_directory", "remove_stale_sockets", "socket_path"]

#: `sockaddr_un` takes 108 bytes, the last one is 0.
_LONGEST = 107
_SUFFIX = ".sock"
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
        name = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return directory / f"{name}{_SUFFIX}"


def live_socket(name: str) -> Path | None:
    """Return the socket at which a living engine listens for segment `name`, in whatever namespace; None for none."""
    for directory in runtime_directories():
        with contextlib.suppress(ConfigError, SegmentError):
            path = socket_path(directory, name)
            if _is_private_directory(directory) and lockfile.holder(f"{path}.lock", lockfile.ENGINE) is not None:
                return path
    return None


def _is_private_directory(directory: Path) -> bool:
    """True for a directory that is there and that only this user can enter."""
    try:
        return _is_private(directory.lstat())
    except OSError:
        return False


def _is_private(status: os.stat_result) -> bool:
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
    if not _is_private(status):
        raise ConfigError(
            f"{directory} is not a directory that only you can enter "
            f"(owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
            backend="shm",
            hint=f"remove it, or run chmod 700 {directory}",
        )
    return directory


def remove_stale_sockets(directories: Sequence[Path] | None = None) -> list[Path]:
    """Remove the sockets of dead engines, with their lock files, and return those removed."""
    removed: list[Path] = []
    for directory in directories or runtime_directories():
        for path in sorted(directory.glob("*.sock")) if _is_private_directory(directory) else ():
            lock = f"{path}.lock"  # a living engine holds it
            with contextlib.suppress(OSError, SegmentError):
                if not path.is_socket() or (held := lockfile.acquire(lock, lockfile.ENGINE)) is None:
                    continue
                try:
                    path.unlink()
                    removed.append(path)
                finally:
                    held.release(unlink=True)
    return removed
