"""Bounded waits for what another thread, task or process does a moment later."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from lucky_transport.deadline import Deadline

#: How long a test waits for what must happen, in seconds; never how long something takes.
PATIENCE_S = 120.0
_POLL_S = 0.002
_PARK_S = 0.03

T = TypeVar("T")


def soon() -> Deadline:
    """Return a deadline for what must happen."""
    return Deadline(PATIENCE_S)


def until(condition: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Return what `condition` returns once that is true; fail the test when it is not within `patience_s`."""
    deadline = Deadline(patience_s)
    while not (found := condition()):
        assert not deadline.expired, "the condition did not come true"
        time.sleep(_POLL_S)
    return found


def until_none_left(left: Callable[[], Collection[object]]) -> None:
    """Return once `left` finds nothing; fail the test with what it still finds after PATIENCE_S."""
    deadline = Deadline(PATIENCE_S)
    while found := left():
        assert not deadline.expired, f"left behind: {found}"
        time.sleep(_POLL_S)


async def until_in_loop(condition: Callable[[], object]) -> None:
    """Let the event loop run until `condition` is true; fail the test when it is not within PATIENCE_S."""
    deadline = Deadline(PATIENCE_S)
    while not condition():
        assert not deadline.expired, "the condition did not come true"
        await asyncio.sleep(_POLL_S)


def call_later(action: Callable[..., object], *arguments: object) -> threading.Thread:
    """Call `action` on another thread once this thread has had time to sleep in its wait."""

    def act() -> None:
        time.sleep(_PARK_S)
        action(*arguments)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def at_once(*calls: Callable[[], object]) -> None:
    """Make calls in a thread each, and return once all have returned."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)


@asynccontextmanager
async def full_executor() -> AsyncIterator[None]:
    """Have the running loop's own executor full of the program's work for as long as the block goes on."""
    gate = threading.Event()
    with ThreadPoolExecutor(1) as full:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(full)
        busy = loop.run_in_executor(None, gate.wait, PATIENCE_S)
        try:
            async with asyncio.timeout(PATIENCE_S / 2):
                yield
            assert not busy.done()
        finally:
            gate.set()
        await busy


@contextmanager
def beside(action: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Call `action` on another thread; fail the test when it has not returned PATIENCE_S after the block."""
    thread = threading.Thread(target=action, args=arguments, daemon=True)
    thread.start()
    yield
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "what was called beside the block goes on"


def suspend(pid: int) -> None:
    """Stop a process by SIGSTOP and return when each of its threads stands still."""
    os.kill(pid, signal.SIGSTOP)
    until_stopped(pid)


def until_stopped(pid: int) -> None:
    """Return when each thread of a process that is being stopped stands still."""
    threads = Path(f"/proc/{pid}/task")
    until(lambda: all(_state(thread) == "T" for thread in threads.iterdir()))


def _state(thread: Path) -> str:
    """Return the state that the kernel names in a thread's `stat`: "R", "S", "T", ..."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def in_a_child(code: Callable[[], object]) -> bool:
    """True when `code()` neither raises nor is False, in a forked child."""
    pid = os.fork()
    if not pid:
        answer = 2
        try:
            answer = int(code() is False)
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
