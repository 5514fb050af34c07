"""Builds that all workers of a session share, as the stand-in for CUDA's library: the first makes it."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this session's builds, which starts empty; pytest-xdist's workers have one together."""
    own = factory.getbasetemp()
    session = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    (session / "builds").mkdir(exist_ok=True)
    return session / "builds"


def build_once(target: Path, build: Callable[[], object]) -> None:
    """Call `build`, which makes the file `target`, unless that is there; one process at a time."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not target.exists():
            build()


_SOURCE = Path(__file__).parents[1] / "core" / "cuda" / "stub_libcuda.c"


def stub_library(factory: pytest.TempPathFactory) -> str:
    """Return the path of the library; skips without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = shared_folder(factory) / "libstub_cuda.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(path), str(_SOURCE)]
    build_once(path, lambda: subprocess.run(command, check=True, timeout=PATIENCE_S))
    return str(path)
