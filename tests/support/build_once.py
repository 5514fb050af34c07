"""Builds that all workers of a session share: the first that needs one makes it, the others wait and find it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["build_once", "shared_folder"]


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
