"""Which processes map a file of /dev/shm: how a peer is found that does not name itself."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lucky_transport.shm.files.liveness import Peer, start_time


def pids_mapping(path: Path) -> list[int]:
    """Return the pids, but our own, of the processes that have the file mapped, lowest first.

    The file's number counts, not its name: a semaphore is mapped under a name that it has no more. Processes that we
    may not look into are not seen, and nothing may be concluded from that.
    """
    try:
        number = str(os.stat(path).st_ino)
    except FileNotFoundError:
        return []
    own = os.getpid()
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return sorted(pid for pid in pids if pid != own and _maps(pid, f"{path.parent}/", number))


def _maps(pid: int, folder: str, number: str) -> bool:
    """True when the process maps that file; a line is: addresses, mode, offset, device, number, path."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        return any(line.split(maxsplit=5)[4] == number for line in maps if folder in line)
    return False


def find_peer(path: Path) -> Peer | None:
    """Return the process that came last to share the file with us, None when there is none that we see."""
    pids = pids_mapping(path)
    if not pids:
        return None
    return Peer(max(pids, key=start_time))
