"""`lucky-transport` as a user meets it: in processes of its own, which end with the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.forked_programs import Program, Programs
from tests.support.waiting import PATIENCE_S

__all__ = ["CommandLine"]


class CommandLine:
    """Runs commands in a folder. variables: what a command's environment has beside `environ`.

    programs: what a command is a fork of where its Python begins as theirs; None starts each one.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path, programs: Programs | None = None) -> None:
        self._environ, self._folder, self._programs = environ, folder, programs
        self._started: list[subprocess.Popen[str] | Program] = []

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `lucky-transport ARGUMENTS...` to its end."""
        command, environ = ["-m", "lucky_transport", *arguments], {**self._environ, **variables}
        if programs := self._forks(environ):
            return programs.run(command, cwd=self._folder, environ=environ, timeout=PATIENCE_S)
        streams: dict[str, Any] = {"capture_output": True, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.run(
            [sys.executable, *command], **streams, env=environ, cwd=self._folder, timeout=PATIENCE_S, check=False
        )

    def start(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, **variables: str
    ) -> subprocess.Popen[str] | Program:
        """Start it in the background."""
        command, environ = ["-m", "lucky_transport", *arguments], {**self._environ, **variables}
        streams: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if programs := self._forks(environ):
            process = programs.popen(command, environ, cwd=str(self._folder), **streams)
        else:
            process = subprocess.Popen([sys.executable, *command], env=environ, cwd=self._folder, text=True, **streams)
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what was started."""
        for process in self._started:
            process.kill()
            process.communicate(timeout=PATIENCE_S)

    def _forks(self, environ: Mapping[str, str]) -> Programs | None:
        """Return what forks a command with this environment."""
        programs = self._programs
        return programs if programs is not None and programs.has_what_python_reads(environ) else None
