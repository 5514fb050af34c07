"""A terminal in which a reader types: bash at a pseudo-terminal, with the environment activated that runs the tests."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Self

from tests.support.waiting import PATIENCE_S, soon

__all__ = ["Terminal"]

_PROMPT = re.compile(rb"<typed: (\d+)>")
_STYLES = re.compile(rb"\x1b\[[\d;?]*[A-Za-z]")
_BASH = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"]


class Terminal:
    """Closed by `with`, which hangs up: what still runs in it ends as when its window is closed."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        termios.tcsetwinsize(theirs, (50, 250))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environ = os.environ | {"PATH": path, "PS1": "<typed: $?>", "PS2": "", "TERM": "dumb"}
        environ.pop("GRPC_ENABLE_FORK_SUPPORT", None)  # of the tests alone
        self._bash = subprocess.Popen(_BASH, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._unread = b""
        self._until(_PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._ours)
        self._bash.wait(PATIENCE_S)

    def type(self, line: str) -> tuple[int, str]:
        """Return the exit status of a command line, and what it has printed, without its styles."""
        return self._ended(f"{line}\n")

    def start(self, line: str, says: str) -> None:
        """Type a command that goes on, and return once it has said this."""
        os.write(self._ours, f"{line}\n".encode())
        self._until(re.compile(re.escape(says.encode())))

    def interrupt(self) -> tuple[int, str]:
        """Type Ctrl-C, and return the exit status of what went on, and what it has printed since."""
        return self._ended("\x03")

    def _ended(self, typed: str) -> tuple[int, str]:
        os.write(self._ours, typed.encode())
        printed, found = self._until(_PROMPT)
        return int(found[1]), _STYLES.sub(b"", printed).decode().replace("\r\n", "\n")

    def _until(self, end: re.Pattern[bytes]) -> tuple[bytes, re.Match[bytes]]:
        """Read until this is there; return what stood before it, and it."""
        deadline = soon()
        while not (found := end.search(self._unread)):
            ready, _, _ = select.select([self._ours], [], [], deadline.remaining_s)
            assert ready, self._unread.decode()
            self._unread += os.read(self._ours, 65536)
        printed, self._unread = self._unread[: found.start()], self._unread[found.end() :]
        return printed, found
