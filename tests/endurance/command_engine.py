"""Engines that a command line starts, such as those of another language."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
from collections import Counter
from typing import Any

from tests.endurance.children import LIMIT_S, Speaker
from tests.endurance.fault_points import Fault


class CommandEngine(Speaker):
    """An engine that writes a line when it is ready, and ends at SIGTERM.

    A build with fault points (`kit_builds`) meets the fault, or records the points that it comes to.
    """

    def __init__(self, command: str, name: str, fault: Fault | None = None, records: bool = False) -> None:
        """command: `{name}` in it stands for the name of the segment."""
        environment = {**os.environ, "MONO_CRASH_NOFILE": "1"}  # mono leaves a file where it is ended by a signal
        if records or fault is not None:
            environment["FAULT"] = f"{fault.point} {fault.nth} {fault.deed}" if fault is not None else "record"
        arguments = shlex.split(command.format(name=name))
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, bufsize=0, env=environment)
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.pid = self._process.pid
        self._unread = b""
        self._records = records
        self._phase = "start"
        self._seen: dict[str, Counter[str]] = {"start": Counter()}

    def tell(self, value: Any) -> None:
        while self._records and self._poll(0):  # these points are not of its end
            self._receive()
        self._begin("end")
        self._process.terminate()

    def _begin(self, phase: str) -> None:
        self._phase = phase
        self._seen[phase] = Counter()

    def _poll(self, seconds: float) -> bool:
        return b"\n" in self._unread or bool(select.select([self._output], [], [], seconds)[0])

    def _receive(self) -> tuple[str, Any]:
        line = self._line()
        if line is None:
            return ("points", self._seen) if self._records else ("closed", None)
        word, *values = line.split() or [""]
        if word == "fault":
            return word, tuple(map(int, values))
        if word == "point":
            self._seen[self._phase].update(values)
        elif self._phase == "start":
            self._begin("work")
            return "ready", None
        return "", None

    def _line(self) -> str | None:
        """Return the next line; None when the engine has ended as it should. Raises EOFError for another end."""
        while b"\n" not in self._unread:
            read = self._output.read(1 << 16)
            if not read:
                if status := self._process.wait(LIMIT_S):
                    raise EOFError(f"exit status {status}")
                return None
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
