"""Sockets that killed engines left in the runtime directory.

Rule 1: the lock beside a socket decides: who can take it may remove both; a living engine's is never touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from lucky_transport.config import runtime_directories
from lucky_transport.errors import SegmentError
from lucky_transport.shm import lockfile
from lucky_transport.shm.socket_path import is_private_directory

__all__ = ["remove_stale_sockets"]


def remove_stale_sockets(directories: Sequence[Path] | None = None) -> list[Path]:
    """Remove the sockets of dead engines, with their lock files, and return those removed."""
    removed: list[Path] = []
    for directory in directories or runtime_directories():
        for path in sorted(directory.glob("*.sock")) if is_private_directory(directory) else ():
            lock = f"{path}.lock"
            with contextlib.suppress(OSError, SegmentError):
                if not path.is_socket() or not lockfile.acquire(lock, lockfile.ENGINE):
                    continue
                try:
                    path.unlink()
                    removed.append(path)
                finally:
                    lockfile.release(lock, lockfile.ENGINE, unlink=True)
    return removed
