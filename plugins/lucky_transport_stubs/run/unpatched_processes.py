"""Pythons below the program that the switch cannot reach, and why.

Found by looking at the processes of this host, again and again. One that lives shorter than the pause between two looks
can be missed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lucky_transport_stubs.run.activation import BOOTSTRAP

__all__ = ["UnpatchedProcess", "UnpatchedProcessDetector", "reason"]

_PROC = Path("/proc")

#: Flags of Python that keep it from reading PYTHONPATH or from importing sitecustomize.
_FLAGS = {"I": "shuts out the environment", "E": "ignores the environment", "S": "imports no site"}


@dataclass(frozen=True, slots=True)
class UnpatchedProcess:
    """A process that is not switched."""

    pid: int
    command: list[str]
    why: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({shlex.join(self.command)[:100]}), {self.why},"


class UnpatchedProcessDetector:
    """Looks for escapes among the descendants of a process; `escapes` are those found so far."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._family: dict[int, bool] = {}
        self._found: dict[tuple[int, tuple[str, ...]], UnpatchedProcess] = {}

    @property
    def escapes(self) -> list[UnpatchedProcess]:
        """What was found, in that order."""
        return list(self._found.values())

    def look(self) -> None:
        """Look at every process that descends from the root, also at those whose parents have ended since."""
        living = {int(name) for name in os.listdir(_PROC) if name.isdecimal()}
        self._family = {self._root: True} | {pid: ours for pid, ours in self._family.items() if pid in living}
        for pid in sorted(living - self._family.keys()):
            self._family[pid] = self._family.get(_parent(pid), False)
        for pid in [pid for pid, ours in self._family.items() if ours and pid != self._root]:
            self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        command, environ = _strings(pid, "cmdline"), _strings(pid, "environ")
        if not command or environ is None or (pid, tuple(command)) in self._found or not _is_python(pid):
            return
        why = reason(command, environ)
        if why and _strings(pid, "cmdline") == command:  # it did not become another program meanwhile
            self._found[pid, tuple(command)] = UnpatchedProcess(pid, command, why)


def reason(command: Sequence[str], environ: Sequence[str]) -> str:
    """Return why a Python started with this command and these `NAME=VALUE` is not switched, "" when it is."""
    for flag in _flags(command[1:]):
        if flag in _FLAGS:
            return f"started with -{flag}, which {_FLAGS[flag]}"
    values = {name: value for name, _, value in (entry.partition("=") for entry in environ)}
    if BOOTSTRAP not in values.get("PYTHONPATH", "").split(os.pathsep):
        return "its PYTHONPATH lacks the launcher's folder"
    return "" if values.get("LUCKY_TRANSPORT") else "its environment lacks LUCKY_TRANSPORT"


def _flags(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the interpreter's own flags, letter by letter: `-IB -W error -c ...` gives I, B, W, c."""
    rest = iter(arguments)
    for argument in rest:
        if not re.match("-[A-Za-z?]", argument):
            if argument.startswith("--"):
                continue
            return
        for position, letter in enumerate(argument[1:], start=2):
            yield letter
            if letter in "cm":
                return
            if letter in "WX":
                if position == len(argument):
                    next(rest, None)
                break


def _parent(pid: int) -> int:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _is_python(pid: int) -> bool:
    try:
        return bool(re.fullmatch(r"python[\d.]*t?", (_PROC / str(pid) / "exe").readlink().name))
    except OSError:
        return False


def _strings(pid: int, name: str) -> list[str] | None:
    """Return the strings of a file of /proc/pid, None when they are not to be had: it ended, or is another user's."""
    try:
        content = (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return None
    return [os.fsdecode(part) for part in content.split(b"\0")[:-1]]
