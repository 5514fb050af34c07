"""The programs that made evidence: `programs.jsonl` beside it, one line for each process.

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "pid": 4460, "command": ["python", "train.py"], "commit": "5f0c6b1d9a3e",
     "versions": {"lucky-transport": "0.1.0", "python": "3.12.1", "grpcio": "1.68.0"}, "system": "Linux 6.1.0 x86_64"}

A process writes its line when it opens its file of evidence. The line holds no environment, and no value of an option
whose name speaks of a secret. The commit is that of the working folder, read from files: no program is started.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

from lucky_transport.found_file import working_directory
from lucky_transport_migration.compare.shown import short
from lucky_transport_migration.jsonl import VERSION, Damage, append_once, moment, read_entries

FILE_NAME = "programs.jsonl"

_PACKAGES = ("lucky-transport", "grpcio", "protobuf", "luckyrobots")
_LARGEST = 1 << 20  # of the file; later processes stay unnamed
_MOST_ARGUMENTS = 40

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
        if path.exists() and (this in _described or path.stat().st_size > _LARGEST):
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
    """Return the first 12 digits of the commit that is checked out there or above; "" where none is or can be read."""
    try:
        root = next(one for one in (folder, *folder.parents) if (one / ".git").exists())
        git = root / ".git"
        if git.is_file():  # of a linked working tree
            git = root / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        common = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
        return (_resolved(head.removeprefix("ref:").strip(), git, common) if head.startswith("ref:") else head)[:12]
    except (OSError, StopIteration, UnicodeDecodeError):
        return ""


def _resolved(name: str, *folders: Path) -> str:
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text().strip()
    packed = folders[-1] / "packed-refs"
    rows = packed.read_text().splitlines() if packed.exists() else []
    return next((row.partition(" ")[0] for row in rows if row.endswith(f" {name}")), "")


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
