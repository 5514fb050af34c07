"""A sample of the crash matrix: all of it is `python -m tests.endurance.crashes`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lucky_transport.errors import PeerDied
from lucky_transport.process import unique_name
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.lockfile import DIRECTORY, lock_path_of
from tests.endurance import fault_native
from tests.endurance.children import resume
from tests.endurance.client_thread import checked
from tests.endurance.command_engine import CommandEngine
from tests.endurance.fault_points import Fault
from tests.endurance.kit_builds import KIT_POINTS, build
from tests.support.waiting import until_stopped

_COMMAND = [sys.executable, "-m", "tests.endurance.crashes", "--seed", "1", "--within-ms", "10000"]
_STEPS = ["--kind", "steps", "--kind", "images", "--only", "frame.", "--only", "image.", "--only", "ring."]


@pytest.mark.parametrize(
    ("options", "cases"),
    [
        (_STEPS, 8),
        (["--kind", "calls", "--only", "slab."], 4),
        ([*_STEPS, "--kit", "c", "--victim", "engine"], 4),
        pytest.param(
            [*_STEPS, "--kit", "csharp", "--victim", "engine"],
            4,
            marks=pytest.mark.skipif(not (shutil.which("mcs") and shutil.which("mono")), reason="no mcs and mono"),
        ),
    ],
)
def test_a_peer_that_crashes_inside_a_publish_hurts_nothing(options: list[str], cases: int) -> None:
    if fault_native.build() is None:
        pytest.skip("no C compiler, or no headers of Python")
    command = [*_COMMAND, *options, "--sample", str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^all +{cases} +0 ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("kit", KIT_POINTS)
def test_an_engine_of_a_kit_waits_for_a_process_that_removes_what_a_dead_one_left(kit: str, tmp_path: Path) -> None:
    if kit == "csharp" and not (shutil.which("mcs") and shutil.which("mono")):
        pytest.skip("no mcs and mono")
    if not shutil.which("cc"):
        pytest.skip("cc is not installed: apt-get install gcc g++ libc6-dev")
    name, command = unique_name(), build(kit, tmp_path)
    removing = lockfile.acquire(str(lock_path_of(DIRECTORY / name)), lockfile.ENGINE)
    assert removing is not None
    engine = CommandEngine(command, name, Fault("lock.opened", 1, "stop"))
    try:
        engine.expect("fault")
        until_stopped(engine.pid)
        resume(engine.pid)
        time.sleep(0.02)
        removing.release(unlink=True)
        engine.expect("ready")
        engine.close()
    finally:
        engine.end()


def test_the_kits_have_the_same_points() -> None:
    """So that what is found of one of them is asked of the other."""
    assert KIT_POINTS["c"] == KIT_POINTS["csharp"]


def test_the_installed_module_has_no_fault_points() -> None:
    code = "from lucky_transport import _native; raise SystemExit(hasattr(_native, 'fault_hook'))"
    environment = {name: value for name, value in os.environ.items() if name != fault_native.ENVIRONMENT}
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0


def test_an_error_that_does_not_say_what_happened_is_a_failure() -> None:
    assert checked(PeerDied("the engine ended", backend="shm")) == "PeerDied"
    with pytest.raises(AssertionError, match="the client got OSError"):
        checked(OSError("bad descriptor"))
