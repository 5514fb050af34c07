"""Processes below the program that use gRPC and are not switched, and why.

What uses gRPC is known by the library in its memory map, what is switched by a file of the launcher's there.

Found by looking at the processes of this host, again and again. One that lives shorter than the pause between two looks
can be missed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lucky_transport_stubs.run.activation import BOOTSTRAP

_PROC = Path("/proc")

#: Flags of Python that keep it from reading PYTHONPATH.
_FLAGS = {"I": "shuts out the environment", "E": "ignores the environment"}

#: In a memory map: gRPC's C core, of Python's grpc or by itself; what bootstrap/sitecustomize.py maps.
_LIBRARY = re.compile(rb"/(cygrpc|libgrpc)[^/\n]*\.so")
_MARK = b"/lucky-run-"


class UnpatchedProcess(NamedTuple):
    """A process that is not switched."""

    pid: int
    command: list[str]
    why: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({shlex.join(self.command)[:100]}) was not switched: {self.why}"


class UnpatchedProcessDetector:
    """Looks for escapes among the descendants of a process that start from now on; `escapes` are those found so far.

    thorough: Pythons that cannot be switched count before they use gRPC.
    """

    def __init__(self, root: int, *, thorough: bool = False) -> None:
        self._root = root
        self._thorough = thorough
        self._family = dict.fromkeys(_living(), False)
        self._found: dict[tuple[int, tuple[str, ...]], UnpatchedProcess] = {}

    @property
    def escapes(self) -> list[UnpatchedProcess]:
        """What was found, in that order."""
        return list(self._found.values())

    def look(self) -> None:
        """Look at every process that descends from the root, also at those whose parents have ended since."""
        living = _living()
        self._family = {pid: ours for pid, ours in self._family.items() if pid in living} | {self._root: True}
        for pid in sorted(living - self._family.keys()):
            self._family[pid] = self._family.get(_parent(pid), False)
        for pid in [pid for pid, ours in self._family.items() if ours and pid != self._root]:
            self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        command, environ = _strings(pid, "cmdline"), _strings(pid, "environ")
        maps = _content(pid, "maps")
        if not command or environ is None or maps is None:
            return
        library = _LIBRARY.search(maps)
        if _MARK in maps:
            self._found.pop((pid, tuple(command)), None)  # it was switched after all
            return
        if library and library[1] == b"libgrpc":
            why = "it uses gRPC's own library, and only Python's package grpc can be switched"
        elif library or (self._thorough and _is_python(pid)):
            why = reason(command, environ) or (library and "its grpc is not the one that `import grpc` finds")
        else:
            return
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


def _living() -> set[int]:
    return {int(name) for name in os.listdir(_PROC) if name.isdecimal()}


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
    """Return the strings of a file of /proc/pid, None when they are not to be had."""
    content = _content(pid, name)
    return None if content is None else [os.fsdecode(part) for part in content.split(b"\0")[:-1]]


def _content(pid: int, name: str) -> bytes | None:
    """Return a file of /proc/pid, None when it is not to be had: the process ended, or is another user's."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return None
