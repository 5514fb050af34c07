"""How often which method went where: the counts of many processes in one folder.

Each process that calls has two files there: `<pid>-<random>.names`, a line of JSON about the process and one for each
(target, endpoint, method), and `<pid>-<random>.counts`, a u64 for each of these lines. The counts are mapped memory, so
whatever ends the process (os._exit, a signal, a crash), they are what they were at that moment.

Counting costs a call one store into that memory: no lock, no system call, no thread; and no count is lost between
threads. A forked child counts in files of its own, from zero. A file that cannot be written is no reason for a
program to fail: its calls are then not counted.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError
from lucky_transport.fork import on_child

_SLOT = 8
_PAGE = mmap.ALLOCATIONGRANULARITY


@dataclass(frozen=True, slots=True)
class Calls:
    """How often a method of `target` was called; `endpoint` is empty for gRPC, and `why` then says why it was gRPC.

    role: "client" of what called, "server" of what was called, "channel" of what gRPC itself counted of a
    channel, all methods together; a server's row without a method is one of its ports.
    """

    target: str
    endpoint: str
    why: str
    method: str
    count: int = 0
    role: str = "client"


@dataclass(slots=True)
class ProcessCalls:
    """What one process called, in the order of each method's first call."""

    pid: int
    command: list[str]
    since_ns: int
    calls: list[Calls] = field(default_factory=list[Calls])


class CallCounter:
    """The count of one method; `add` counts one more call."""

    __slots__ = ("_open", "add")

    def __init__(self, open_slot: Callable[[], Callable[[], None]]) -> None:
        self._open = open_slot
        self.reset()

    def reset(self) -> None:
        """Start from zero, in a slot that is taken with the first call."""
        self.add: Callable[[], None] = self._first

    def open(self) -> None:
        """Take the slot now, so that the method is listed even if it is never called."""
        self.add = self._open()

    def _first(self) -> None:
        self.open()
        self.add()


class CallCounters:
    """The counters that this process writes. say: is told why calls are not counted."""

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda why: None) -> None:
        self._folder = folder
        self._say = say
        self._counters_by_method: dict[Calls, CallCounter] = {}
        self._names = -1
        self._begin()
        on_child(self._begin)

    def counter(self, calls: Calls) -> CallCounter:
        """Return the counter of a method at a place; the same one each time."""
        with self._lock:
            return self._counters_by_method.setdefault(calls, CallCounter(lambda: self._slot(calls)))

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._slots: Iterator[Callable[[], None]] | None = None
        if self._names >= 0:
            os.close(self._names)
            self._names = -1
        for counter in self._counters_by_method.values():
            counter.reset()

    def _slot(self, calls: Calls) -> Callable[[], None]:
        with self._lock:
            try:
                if self._slots is None:
                    self._slots = self._open_files()
                add = next(self._slots)
                self._note([calls.target, calls.endpoint, calls.why, calls.method, calls.role])
            except (FileNotFoundError, StopIteration):  # the launcher has ended; or what follows was said before
                return _nothing
            except OSError as error:
                self._say(f"calls are not counted: {error}")
                return _nothing
            return add

    def _open_files(self) -> Iterator[Callable[[], None]]:
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}"
        flags = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        counts = os.open(f"{path}.counts", flags | os.O_RDWR, 0o600)
        self._names = os.open(f"{path}.names", flags | os.O_WRONLY | os.O_APPEND, 0o600)
        self._note({"pid": os.getpid(), "command": sys.orig_argv, "since_ns": time.monotonic_ns()})
        return _counters(counts)

    def _note(self, line: Any) -> None:
        os.write(self._names, json.dumps(line).encode() + b"\n")


def _nothing() -> None:
    """Count a call that cannot be counted."""


def _counters(fd: int) -> Iterator[Callable[[], None]]:
    """Yield one counter after another, each on its own u64 of the file. Raises OSError when the disk is full."""
    try:
        for page in itertools.count():
            os.posix_fallocate(fd, page * _PAGE, _PAGE)  # a sparse file on a full disk would kill at the first store
            words = memoryview(mmap.mmap(fd, _PAGE, offset=page * _PAGE)).cast("Q")
            for index in range(_PAGE // _SLOT):
                # One C call takes the next number and stores it: no other thread comes in between.
                yield map(words.__setitem__, itertools.repeat(index), itertools.count(1)).__next__
    finally:
        os.close(fd)


def new_folder() -> Path:
    """Return a new folder for counts, which only this user can enter; raises ConfigError where there is no room."""
    import tempfile  # what counts in a program needs none of what that imports

    try:
        return Path(tempfile.mkdtemp(prefix="lucky-run-"))
    except OSError as error:
        raise ConfigError(f"calls cannot be counted: {error}", hint="set TMPDIR to a folder of yours") from error


def read(folder: Path) -> list[ProcessCalls]:
    """Return what the processes that used `folder` have called so far, in the order of their first calls."""
    found = [process for path in folder.glob("*.names") if (process := _read_process(path)) is not None]
    return sorted(found, key=lambda process: process.since_ns)


def _read_process(names: Path) -> ProcessCalls | None:
    lines = names.read_bytes().split(b"\n")[:-1]  # what stands behind the last line end was being written
    if not lines:
        return None
    process = ProcessCalls(**json.loads(lines[0]))
    words = memoryview(names.with_suffix(".counts").read_bytes()).cast("Q")
    for line, count in zip(lines[1:], words, strict=False):
        target, endpoint, why, method, role = json.loads(line)
        process.calls.append(Calls(target, endpoint, why, method, count, role))
    return process
