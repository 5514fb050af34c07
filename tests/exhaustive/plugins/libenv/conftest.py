"""The fixtures of the quick tests; and no segment is left by engines of a library, or by libraries of an engine."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.shm.segment import segment_files
from lucky_transport_libenv.export.build import build
from tests.plugins.libenv.conftest import *  # noqa: F403
from tests.support.waiting import until_none_left


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Generator[None]:
    before = {found.name for found in segment_files.find()}
    yield
    until_none_left(lambda: {found.name for found in segment_files.find() if _is_ours(found)} - before)


def _is_ours(found: Any) -> bool:
    """True when this process is its client or an ancestor of its engine: other test runs have segments too."""
    pid = found.engine_pid
    while pid not in (0, os.getpid()):
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            pid = 0
    return os.getpid() in (pid, found.client_pid)


@pytest.fixture(scope="session")
def toy(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a library of the toy engine."""
    target = tmp_path_factory.mktemp("toy") / "libtoy.so"
    build("toy", target, options={"episode_steps": 12})
    return str(target)
