"""Two sides on one core sleep at once: a side that looked for the other one would keep the core from it."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.command import execute, python, stdout_of
from tests.support.waiting import PATIENCE_S

#: Counts the yields of all processes that it is loaded into, in a file that they share.
COUNTER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static uint64_t *yields;
__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("YIELDS"), O_RDWR);
    void *found = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) yields = found;
}
int sched_yield(void) {
    if (yields) __atomic_fetch_add(yields, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_sched_yield);
}
"""
PROGRAM = """
import os, sys
from pathlib import Path
import lucky_transport
from lucky_transport import api
from lucky_transport.process import EngineProcess, unique_name

core = {min(os.sched_getaffinity(0))}
os.sched_setaffinity(0, core)
process = EngineProcess("toy", [f"shm://{unique_name()}"], num_envs=2)
counts = lambda: int.from_bytes(Path(os.environ["YIELDS"]).read_bytes(), "little")
sleeps = lambda: sum(
    int(line.split()[1])
    for pid in (os.getpid(), process.pid)
    for task in Path(f"/proc/{pid}/task").glob("*/status")
    for line in task.read_text().splitlines()
    if line.startswith("voluntary")
)
try:
    alone = api.make("toy", 2, transport="inproc")
    with lucky_transport.make(endpoint=str(process.endpoints[0])) as env, alone:
        env.reset(seed=1)
        alone.reset(seed=1)
        actions = env.action_space.sample()
        for number in range(5000):
            if number == 1000:
                before = sleeps(), counts()
            assert env.step(actions)[0].tobytes() == alone.step(actions)[0].tobytes()
        after = sleeps(), counts()
finally:
    process.stop()
print(*(b - a for a, b in zip(before, after)))
"""
STEPS = 4000


def test_two_sides_on_one_core_sleep_at_once_and_give_each_other_their_turns(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to count yields with")
    source, library, counts = tmp_path / "yields.c", tmp_path / "yields.so", tmp_path / "yields"
    source.write_text(COUNTER)
    counts.write_bytes(bytes(8))
    stdout_of(execute(compiler, "-shared", "-fPIC", "-O1", "-o", library, source))
    variables = {**os.environ, "LD_PRELOAD": str(library), "YIELDS": str(counts)}
    printed = stdout_of(python("-c", PROGRAM, env=variables, timeout=10 * PATIENCE_S))
    sleeps, yields = map(int, re.findall(r"\d+", printed))
    # Where the kernel lets the side that is woken run at once, the other one needs no sleep.
    assert sleeps >= STEPS
    # What waits for further clients yields now and then, and one of two sides that looked at least at each 256th step.
    assert yields < STEPS // 256
