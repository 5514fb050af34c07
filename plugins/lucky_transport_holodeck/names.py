"""What everything is called that the two ends of Holodeck's protocol share, and which processes share it.

    names = Names("8ac7059c")
    names.server                    "/HOLODECK_SEMAPHORE_SERVER8ac7059c"
    names.block("command_buffer")   /dev/shm/HOLODECK_MEM8ac7059c_command_buffer

Without a uuid the names are the bare ones.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lucky_transport.errors import ConfigError, RemoteProtocolError
from lucky_transport.shm.files.liveness import Peer, start_time

#: Blocks that every pair has.
COMMAND_BOOL, COMMAND_BUFFER, RESET = "command_bool", "command_buffer", "RESET"
#: A block that our client makes beside them, in which an engine of ours says what it does not have.
REFUSED = "lucky_refused"

_SHARED = Path("/dev/shm")
_UUID = re.compile(r"[A-Za-z0-9_.-]{0,100}")
_KEY = re.compile(r"[^/\0]{1,120}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one pair of engine and client. Raises ConfigError for a uuid that cannot be part of a file's
    name.
    """

    uuid: str = ""

    def __post_init__(self) -> None:
        if not _UUID.fullmatch(self.uuid):
            raise ConfigError(
                f"Holodeck uuid {self.uuid!r}",
                backend="holodeck",
                hint="use up to 100 letters, digits, '_', '-' and '.', e.g. holodeck://demo",
            )

    @property
    def loading(self) -> str:
        """The semaphore that the engine posts once, when it is there."""
        return f"/HOLODECK_LOADING_SEM{self.uuid}"

    @property
    def server(self) -> str:
        """The semaphore on which the engine waits."""
        return f"/HOLODECK_SEMAPHORE_SERVER{self.uuid}"

    @property
    def client(self) -> str:
        """The semaphore on which the client waits."""
        return f"/HOLODECK_SEMAPHORE_CLIENT{self.uuid}"

    @staticmethod
    def file_of(semaphore: str) -> Path:
        """Return the file of the semaphore of that name."""
        return _SHARED / f"sem.{semaphore.removeprefix('/')}"

    def block(self, key: str) -> Path:
        """Return the file of a block; raises RemoteProtocolError for a key that is no part of a file's name."""
        if not _KEY.fullmatch(key):
            raise RemoteProtocolError(
                f"{key!r} cannot be the name of a block: it needs 1 to 120 characters without '/'", backend="holodeck"
            )
        return _SHARED / f"HOLODECK_MEM{self.uuid}_{key}"


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
