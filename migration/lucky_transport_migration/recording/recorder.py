"""Writes a recording: lines, compressed where the file's name ends in ".gz".

To record never breaks what is recorded: a full disk ends the recording and is logged once. No file is
overwritten. Where the name is taken, by an earlier recording, another process or another engine, "-2" and so on is
added to it, and the log says so. What a process records of one engine is one file, in the order in which calls and
steps ended. It is open only while lines are added, so that a forked child has nothing of it; a compressed file is a row
of whole pieces. A line waits in memory for half a second at most: a timer runs whenever one waits.
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lucky_transport.errors import ConfigError
from lucky_transport.fork import at_exit, on_child
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.recording.entries import Header, RecordedCall, Step, line_of

_log = logging.getLogger("lucky_transport")

#: What a killed process may lose, and what may wait in memory.
_FLUSH_S = 0.5
_FLUSH_BYTES = 1 << 20


class Recorder:
    """Adds entries, from any thread, to a new file that begins with `header`.

    path: the file's real name. moves: how often the world was stepped or changed. Raises ConfigError when the file
    cannot be made.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.moves = 0
        self._wanted = path
        self._header = header
        self._lock = threading.RLock()  # reentrant: a finalizer may end a stream in the middle of anything
        self._begin()
        on_child(self._unlock)
        at_exit(self.flush)

    def write(self, entry: RecordedCall | Step, *, moves: bool = False) -> None:
        """Add an entry. moves: it stepped or changed the world."""
        line = line_of(entry).encode()
        with self._lock:
            if os.getpid() != self._pid:  # a forked child's file is its own
                self._begin()
            self.moves += moves
            if self._ended:
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            if self._waiting_bytes > _FLUSH_BYTES or not self._is_timed():
                self._flush()

    def flush(self) -> None:
        """Write what waits in memory; the file can then be read."""
        with self._lock:
            if os.getpid() == self._pid:
                self._flush()

    def _is_timed(self) -> bool:
        """Have what waits flushed soon; False when the system has no thread for it."""
        if self._timer is None:
            timer = threading.Timer(_FLUSH_S, self._flush_in_time)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                return False
            self._timer = timer
        return True

    def _flush_in_time(self) -> None:
        with self._lock:
            self._timer = None
            self._flush()

    def _unlock(self) -> None:
        self._lock = threading.RLock()  # in a forked child; a thread of the parent may have held it

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._timer: threading.Timer | None = None
        self._lines = [line_of(replace(self._header, at=moment(time.time()))).encode()]
        self._ended = False
        try:
            self.path = _new_file(self._wanted)
        except (OSError, ValueError) as error:  # ValueError: a name that no file has, such as one with a zero byte
            raise ConfigError(
                f"a recording to {str(self._wanted)!r} cannot be written: {error}",
                hint="name another file (LUCKY_RECORD, record=), e.g. run.jsonl.gz",
            ) from error
        _log.info("recording %s to %s", self._header.endpoint or "calls", self.path)
        self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        self._waiting_bytes = 0
        if not (data := b"".join(lines)):
            return
        try:
            with self.path.open("ab") as file:
                file.write(gzip.compress(data, compresslevel=1) if self.path.suffix == ".gz" else data)
        except OSError as error:
            self._ended = True
            _log.warning("recording to %s ended: %s; what came until then can be replayed", self.path, error)


_recorders: dict[tuple[Path, str], Recorder] = {}
_recorders_lock = threading.Lock()


def recorder_of(path: Path, header: Header) -> Recorder:
    """Return this process's recorder of what goes to `header.endpoint`, for the file of that name.

    Raises ConfigError when the file cannot be made.
    """
    key = path.absolute(), header.endpoint
    with _recorders_lock:
        if key not in _recorders:
            _recorders[key] = Recorder(key[0], header)
        return _recorders[key]


def _new_file(wanted: Path) -> Path:
    """Make an empty file of that name, or of the first such name that is free; raises OSError."""
    ending = "".join(wanted.suffixes[-2:]) if wanted.suffix == ".gz" else wanted.suffix
    stem = wanted.name.removesuffix(ending)
    if wanted.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    wanted.parent.mkdir(parents=True, exist_ok=True)
    number, path = 1, wanted
    while True:
        with suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
        number += 1
        path = wanted.with_name(f"{stem}-{number}{ending}")
