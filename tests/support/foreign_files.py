"""Files of another user where ours should be. Making one needs root, which gives it away."""

import functools
import os
import pwd
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from tests.support.waiting import PATIENCE_S

KINDS = ("file", "fifo", "directory", "symbolic link", "socket")


class MakeForeignFile(Protocol):
    """Makes `path`, of another user, and returns its mode."""

    def __call__(self, path: Path, kind: str, content: bytes = b"") -> int: ...


def why_not() -> str:
    """Return why no file of another user can be made here; "" where it can."""
    return "" if os.geteuid() == 0 else "a second user's files need root: run this test as root"


@functools.cache
def foreign_uid() -> int:
    """Return a user id that nobody has."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(54321, 60000) if uid not in taken)


def make(path: Path, kind: str, content: bytes = b"", mode: int = 0o666) -> None:
    """Make a file of one of KINDS."""
    if kind == "file":
        path.write_bytes(content)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "symbolic link":
        path.symlink_to("/etc/hostname")
        return
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    path.chmod(0o777 if kind == "directory" else mode)


def make_as(uid: int, path: Path, kind: str, content: bytes = b"") -> int:
    """Make the file, readable and writable for everybody, give it to user `uid`, and return its mode."""
    make(path, kind, content)
    os.chown(path, uid, uid, follow_symlinks=False)
    return stat.S_IMODE(path.lstat().st_mode)


def as_another_user(code: str, *arguments: object) -> list[str]:
    """Run code, for which `os`, `socket` and `sys` are imported, as a user that is not root; return its lines."""
    become = f"import os, socket, sys\nos.setgroups([]); os.setgid({foreign_uid()}); os.setuid({foreign_uid()})\n"
    command = [sys.executable, "-c", become + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()
