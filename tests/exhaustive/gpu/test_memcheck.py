"""No call of this project reads or writes device memory that is not its own, says compute-sanitizer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fixtures.gpu import Gpu

_ROOT = Path(__file__).parents[3]
#: Of what goes on in device memory, as much as there is time for: a program under memcheck takes many times as long.
_TESTS = ["a_copy_stays_as_it_is", "that_moved_is_opened_anew", "much_is_copied", "withdrawn_memory"]
_LIMIT_S = 150


def test_memcheck_finds_no_error_in_the_tests_of_memory(gpu: Gpu, tmp_path: Path) -> None:
    checker: list[str] = []
    if gpu.is_real:
        found = shutil.which("compute-sanitizer")
        if found is None:
            pytest.skip("compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
        checker = [found, "--tool", "memcheck", "--target-processes", "all", "--report-api-errors", "no"]
        checker += ["--error-exitcode", "99"]
    which = f"{'[cuda]' if gpu.is_real else '[stand-in]'} and ({' or '.join(_TESTS)})"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", str(tmp_path / "tests")]
    command = [*checker, sys.executable, "-m", "pytest", *options, "tests/exhaustive/gpu/test_memory.py", "-k", which]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_LIMIT_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{len(_TESTS)} passed" in done.stdout
