"""Evidence in a folder: one file for each process, one line for each call; beside them what the processes are.

A folder that cannot be written harms no call: the evidence is lost, and that is logged once until it works again. A
file has a limit: beyond it only what differed or failed is written, so that mismatches are never too few.

A process that opens its file of evidence writes a line into `programs.jsonl`:

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "pid": 4460, "command": ["python", "train.py"], "commit": "5f0c6b1d9a3e",
     "versions": {"lucky-transport": "0.1.0", "python": "3.12.1", "grpcio": "1.68.0"}, "system": "Linux 6.1.0 x86_64"}

It holds no environment, and no value of an option whose name speaks of a secret. The commit is that of the working
folder, as git says it.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

from lucky_transport.found_file import working_directory
from lucky_transport_migration.compare.difference import short
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, LOOKS, Evidence
from lucky_transport_migration.jsonl import VERSION, Damage, append, append_once, moment, open_to_append, read_entries

_LARGEST = 256 << 20
FILE_NAME = "programs.jsonl"

_PACKAGES = ("lucky-transport", "grpcio", "protobuf", "luckyrobots")
_LARGEST_PROGRAMS = 1 << 20  # of that file; later processes stay unnamed
_MOST_ARGUMENTS = 40
_GIT_TIMEOUT_S = 5.0

#: Stands for a value that is a secret.
MASKED = "***"

#: What the name of a secret speaks of, as a regular expression.
SECRET_WORDS = "token|passw|secret|credential|api[-_]?key|private[-_]?key"

_SECRET = re.compile(rf"--?[\w-]*({SECRET_WORDS})[\w-]*", re.IGNORECASE)
_METADATA = "--metadata"
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")

_log = logging.getLogger("lucky_transport")

#: Folders in which a process has its line.
_described: set[tuple[int, Path]] = set()


class Lines:
    """What this process writes; `say` is told what a user should know. largest: the file's limit in bytes."""

    def __init__(self, say: Callable[[str], None], largest: int = _LARGEST) -> None:
        self._say = say
        self._largest = largest
        self._is_told = self._is_full = False
        self._descriptor = -1
        self._path = Path()

    def write(self, folder: Path, evidence: Sequence[Evidence]) -> None:
        """Append to the file of this process in `folder`, which is made when it is not there."""
        if self._is_full:
            evidence = [one for one in evidence if one.verdict in (DIFFERENT, FAILED)]
        if not evidence:
            return
        try:
            self._append(folder, "".join(one.write() for one in evidence).encode())
            self._is_told = False
        except OSError as error:
            if not self._is_told:
                self._say(f"evidence is lost: {error}")
            self._is_told = True

    def close(self) -> None:
        """Close the file; a later `write` opens it again. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, folder: Path, text: bytes) -> None:
        path = folder / f"calls-{os.getpid()}.jsonl"
        if path != self._path or self._descriptor < 0 or not os.fstat(self._descriptor).st_nlink:
            self._open(path)
        size = append(self._descriptor, text)
        if size > self._largest and not self._is_full:
            self._is_full = True
            self._say(f"{path} has {size:,} bytes: from here on it gets only what differs or fails")

    def _open(self, path: Path) -> None:
        self.close()
        if not any(path.parent.glob("calls-*.jsonl")):  # nobody has looked at anything yet
            os.close(open_to_append(path.parent / LOOKS))
        self._descriptor, self._path = open_to_append(path), path
        describe_process(path.parent)


@dataclass(frozen=True, slots=True)
class Program:
    """A process that made evidence. commit: "" where its working folder is no git checkout."""

    at: str
    pid: int
    command: tuple[str, ...]
    commit: str
    versions: dict[str, str]
    system: str


def describe_process(folder: Path) -> None:
    """Write what this process is into `folder`, once; what cannot be written is logged."""
    path = folder / FILE_NAME
    this = os.getpid(), path.absolute()
    try:
        if path.exists() and (this in _described or path.stat().st_size > _LARGEST_PROGRAMS):
            return
        line = json.dumps({"v": VERSION} | asdict(_this_process())) + "\n"
        append_once(path, line.encode())
        _described.add(this)
    except OSError as error:
        _log.warning("%s does not say what this process is: %s", path, error)


def read_programs(folder: Path, damage: Damage) -> list[Program]:
    """Return the programs that made evidence in `folder`, in the order in which they began.

    damage: is told of lines that were torn. Raises ConfigError as `read_entries`.
    """
    path, found = folder / FILE_NAME, list[Program]()
    if path.exists():
        for number, (_, program) in enumerate(read_entries(path, Program), 1):
            if program is None:
                damage.add(Damage(1, str(path), number))
            else:
                found.append(program)
    return found


def commit_of(folder: Path) -> str:
    """Return the first 12 digits of the commit that is checked out there or above; "" where git knows of none."""
    return git(folder, "rev-parse", "--short=12", "HEAD") or ""


def git(folder: Path, *arguments: str) -> str | None:
    """Return what git says of a folder; None where it is not there, refuses or takes longer than five seconds."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _this_process() -> Program:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Program(moment(time.time()), os.getpid(), _command(), commit_of(Path(working_directory())), versions, system)


def _command() -> tuple[str, ...]:
    """Return the command line without its secrets; of a long one the beginning."""
    given = list(sys.orig_argv[:_MOST_ARGUMENTS]) or [""]
    shown = [os.path.basename(given[0])]
    for before, text in pairwise(given):
        parts = text.split("=")
        names = 2 if parts[0] == _METADATA else 1
        if _SECRET.fullmatch(before):
            text = MASKED
        elif len(parts) > names and (_METADATA in (before, parts[0]) or _SECRET.fullmatch(parts[0])):
            text = "=".join((*parts[:names], MASKED))
        shown.append(short(_USER_IN_URL.sub(MASKED, text)))
    return (*shown, "...") if len(sys.orig_argv) > _MOST_ARGUMENTS else tuple(shown)
