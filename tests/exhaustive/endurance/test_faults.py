"""Short soaks, a few kills and a sample of the crash matrix; `tests.endurance` runs the long ones."""

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.lockfile import lock_path_of
from tests.endurance import fault_native, workloads
from tests.endurance.children import resume
from tests.endurance.engine_pool import CommandEngine
from tests.endurance.fault_points import Fault
from tests.endurance.kills import KillRun
from tests.endurance.kit_builds import KIT_POINTS, build
from tests.endurance.leaks import available
from tests.endurance.soak import soak
from tests.support.command import python, stdout_of
from tests.support.waiting import until_stopped

# soaks


def test_nothing_stays_of_what_is_opened_and_left() -> None:
    """In a process of its own: other tests of this one leave descriptors to the collector."""
    printed = stdout_of(python("-m", "tests.endurance.leaks", "--minutes", "0.05", "--seed", "1", timeout=100))
    rounds = dict(re.findall(r"^(\w+): (\d+) rounds$", printed, re.MULTILINE))
    assert set(rounds) == set(available())
    assert sum(map(int, rounds.values())) >= len(rounds) / 2  # a busy machine may not get to each in that time
    counts = re.findall(r"^    start (\d+) descriptors.*\n    peak  (\d+) descriptors", printed, re.MULTILINE)
    assert any(int(start) < int(peak) for start, peak in counts)


@pytest.mark.parametrize(("messages", "ring_bytes"), [(60_000, 65536), (20_000, 4096)])
def test_every_message_comes_once_whole_and_in_order_and_the_memory_stays_flat(messages: int, ring_bytes: int) -> None:
    outcome = soak(messages, ring_bytes=ring_bytes)
    assert outcome.messages == messages
    assert outcome.payload_bytes > 20 * ring_bytes  # it wrapped many times
    assert outcome.flat


# kills

_PENDULUMS = f"{sys.executable} -m lucky_transport serve pendulum --num-envs 4 --endpoint shm://{{name}}"


@pytest.mark.parametrize(
    ("kinds", "deeds", "command", "times"),
    [
        ([], ["kill"], None, 12),
        (["steps", "calls"], ["stop"], None, 4),
        (["steps"], ["kill", "stop"], {workloads.ENGINE: _PENDULUMS}, 3),
    ],
    ids=["kills", "stops", "of an engine of a command line"],
)
def test_kills_and_stops_at_random_moments_are_noticed_and_leave_nothing(
    kinds: list[str], deeds: list[str], command: dict[str, str] | None, times: int
) -> None:
    run = KillRun(kinds or available(), 1, deeds, command)
    try:
        run.play(times)
    finally:
        run.close()
    assert run.found.failures == []
    assert sum(map(len, run.found.noticed_s.values())) + run.found.stops == times


# crashes

_COMMAND = ["-m", "tests.endurance.crashes", "--seed", "1", "--within-ms", "10000"]
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
    printed = stdout_of(python(*_COMMAND, *options, "--sample", cases, timeout=280))
    assert re.search(rf"^all +{cases} +0 ", printed, re.MULTILINE)


@pytest.mark.parametrize("kit", KIT_POINTS)
def test_an_engine_of_a_kit_waits_for_a_process_that_removes_what_a_dead_one_left(kit: str, tmp_path: Path) -> None:
    if kit == "csharp" and not (shutil.which("mcs") and shutil.which("mono")):
        pytest.skip("no mcs and mono")
    if not shutil.which("cc"):
        pytest.skip("cc is not installed: apt-get install gcc g++ libc6-dev")
    name, command = unique_name(), build(kit, tmp_path)
    removing = lockfile.acquire(str(lock_path_of(Path("/dev/shm") / name)), lockfile.ENGINE)
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


def test_the_installed_module_has_no_fault_points() -> None:
    code = "from lucky_transport import _native; raise SystemExit(hasattr(_native, 'fault_hook'))"
    environment = {name: value for name, value in os.environ.items() if name != fault_native.ENVIRONMENT}
    assert python("-c", code, env=environment).returncode == 0
