"""Runs each tool many times without a plant, beside other work: every run must find all equal.

    python -m tests.planted.control_runs --runs 20 --busy 4

Engines run in processes of their own, as for a user. Prints a line per tool, and the report of each run that was not
equal; exit code 0 only when there was none.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.planted.plant import PLANT
from tests.planted.tools import TOOLS, parity_calls, replay_calls, site

#: What is run: the tools of steps, and those of calls.
CONTROLS = {**TOOLS, "parity --method *": lambda folder: parity_calls(folder, "*"), "replay of calls": replay_calls}


@contextlib.contextmanager
def busy(processes: int) -> Generator[None]:
    """Keep so many processes busy meanwhile."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1), help="processes that work meanwhile")
    parser.add_argument("--tool", choices=list(CONTROLS), action="append", help="only these")
    given = parser.parse_args()
    unequal = 0
    os.environ.pop(PLANT, None)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(site(folder, stack.enter_context(pytest.MonkeyPatch.context())))
        stack.enter_context(busy(given.busy))
        for tool in given.tool or CONTROLS:
            equal = 0
            for _ in range(given.runs):
                with tempfile.TemporaryDirectory() as own:
                    report = CONTROLS[tool](Path(own))
                equal += report.status == 0
                if report.status:
                    print(report.text)
            print(f"{tool}: {equal} of {given.runs} equal", flush=True)
            unequal += given.runs - equal
    return min(unequal, 1)


if __name__ == "__main__":
    sys.exit(main())
