"""The stand-in for the CUDA driver's library, compiled from C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.build_once import build_once, shared_folder
from tests.support.waiting import PATIENCE_S

__all__ = ["stub_library"]

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
