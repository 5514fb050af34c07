"""`lucky-transport` as a user meets it: in processes of its own, which end with the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

__all__ = ["CommandLine"]


class CommandLine:
    """Runs commands in a folder. variables: what a command's environment has beside `environ`."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ, self._folder = environ, folder
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `lucky-transport ARGUMENTS...` to its end."""
        options = self._options(arguments, variables)
        return subprocess.run(**options, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL, **variables: str) -> subprocess.Popen[str]:
        """Start it in the background."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(**self._options(arguments, variables), stdin=stdin, stdout=pipe, stderr=pipe)
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what was started."""
        for process in self._started:
            process.kill()
            process.communicate(timeout=PATIENCE_S)

    def _options(self, arguments: tuple[str, ...], variables: Mapping[str, str]) -> dict[str, Any]:
        command = [sys.executable, "-m", "lucky_transport", *arguments]
        return {"args": command, "text": True, "env": {**self._environ, **variables}, "cwd": self._folder}
