"""Whether a signal was sent to the launcher alone, or to its whole process group.

A signal does not say which, and the program, a member of the group, must get each signal once: one for the group has
reached it already. A witness tells: a process of the group that blocks them all, so that those for the group stay
pending in it, for /proc to show.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["GroupSignalProbe", "is_in_our_group"]

_FOR_EVER_S = "2147483647"
#: The kernel signals a group one process after the other; so long at most the witness may be behind.
_LOOKS, _PAUSE_S = 10, 0.001


class GroupSignalProbe:
    """Made while the signals are blocked, which it inherits. prepare: runs in the child before it is the witness."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._program = shutil.which("sleep")
        self._process = self._start()

    def saw(self, number: int) -> bool:
        """Return True when the signal that just came was for the whole group; False too where there is no witness."""
        if self._process is None:
            return False
        for _ in range(_LOOKS):
            if number in _pending(self._process.pid):
                self.close()
                self._process = self._start()  # the next signal is another matter
                return True
            time.sleep(_PAUSE_S)
        return False

    def close(self) -> None:
        """End the witness."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes] | None:
        if self._program is None:
            return None
        try:
            return subprocess.Popen(
                [self._program, _FOR_EVER_S],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=self._prepare,
            )
        except OSError:
            return None


def _pending(pid: int) -> set[int]:
    """Return the numbers of the signals that a process has been sent and not taken."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return set()
    words = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    mask = int(words.get("ShdPnd", "0"), 16)
    return {number for number in range(1, signal.NSIG) if mask & 1 << (number - 1)}


def is_in_our_group(pid: int) -> bool:
    """Return True when a process gets what is sent to our group."""
    try:
        return os.getpgid(pid) == os.getpgid(0)
    except ProcessLookupError:
        return False
