"""Processes in namespaces of their own, as in a container: by `unshare`, which is what a container is made of."""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

#: What a box shares with the machine. /dev/shm and /tmp are shared by all three, as `--ipc=host` and a volume do.
HOST: tuple[str, ...] = ()
PID = ("--pid", "--mount", "--mount-proc")
USER = ("--user", "--map-root-user", "--ipc", "--pid", "--mount", "--mount-proc")

ROOT = Path(__file__).parents[2]


@functools.cache
def _refusal(flags: tuple[str, ...]) -> str:
    """Return why this kernel or user may not make such a box, "" if it may."""
    try:
        tried = subprocess.run(
            ["unshare", *flags, "--fork", "true"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except OSError as error:
        return f"unshare: {error}"
    return "" if tried.returncode == 0 else f"unshare {' '.join(flags)}: {tried.stderr.strip()}"


def needs(*boxes: tuple[str, ...]) -> None:
    """Skip the test where one of these boxes cannot be made, with the reason."""
    for flags in boxes:
        if flags and (refusal := _refusal(flags)):
            pytest.skip(refusal)


class Box:
    """A Python program in a box; what it prints is read line by line."""

    def __init__(self, flags: tuple[str, ...], *arguments: str) -> None:
        prefix = ["unshare", *flags, "--fork", "--kill-child"] if flags else []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the box)
        self._process = subprocess.Popen(
            [*prefix, sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def line(self) -> str:
        """Return the next line; fails the test when the program ends without one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"the program in the box ended: {self._errors.read().decode()}")
        return line.strip()

    def kill(self) -> None:
        """Kill all that is in the box, at once."""
        self._process.kill()

    def close(self) -> None:
        """Kill it and wait for its end."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


@contextmanager
def boxed(flags: tuple[str, ...], *arguments: str) -> Iterator[Box]:
    """Run `python ARGUMENTS` in a box; it is killed in the end."""
    box = Box(flags, *arguments)
    try:
        yield box
    finally:
        box.close()
