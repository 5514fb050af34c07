"""Run the native module under the sanitizers: `python -m tests.sanitizers`, and with `--python` its Python tests.

Exit code 0 means that no sanitizer and no check of the harness found anything.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.sanitizers.builds import JOBS, SANITIZERS, Unavailable, build_harness, build_module, run

__all__ = ["main"]

_PYTHON = (
    ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/shm"),
    ("-m", "tests.endurance.fuzz", "rings", "--rounds", "20000"),
    ("-m", "tests.endurance.fuzz", "envelopes", "--rounds", "20000"),
    ("-m", "tests.endurance.fuzz", "live", "--seconds", "60"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was chosen and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizers", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="how many times the work of CI; default: %(default)s")
    parser.add_argument("--python", action="store_true", help="the tests in Python, over a module with ASan and UBSan")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lucky_sanitizers_") as folder:
        try:
            return _python(Path(folder)) if chosen.python else _harness(Path(folder), chosen.times)
        except Unavailable as error:
            print(error, file=sys.stderr)
            return 2


def _harness(folder: Path, times: int) -> int:
    findings = 0
    for sanitizer, names in SANITIZERS.items():
        program = build_harness(sanitizer, folder)
        for job, count in JOBS[sanitizer].items():
            start = time.monotonic()
            done = run(program, job, count * times, timeout_s=3600)
            findings += done.returncode != 0
            outcome = "nothing found" if not done.returncode else f"exit code {done.returncode}\n{done.stderr}"
            took = time.monotonic() - start
            print(f"{names:20} {job:10} {count * times:12,}  {took:6.1f} s  {outcome}", flush=True)
    return 1 if findings else 0


def _python(folder: Path) -> int:
    environment = build_module(folder)
    shown = "from lucky_transport import _native; print(_native.__file__)"
    subprocess.run([sys.executable, "-c", shown], cwd=folder, env=environment, check=True)
    return max(
        subprocess.run([sys.executable, *command], cwd=folder, env=environment).returncode for command in _PYTHON
    )


if __name__ == "__main__":
    sys.exit(main())
