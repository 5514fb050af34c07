"""What a `serve` that fails leaves, step by step: `python -m tests.plugins.failing_starts FAULT ENGINE ENDPOINT...`.

Serves again and again in a process of its own. The first time the fault strikes at the first step of the start that it
can strike at, then at the second, until no step is left. It prints one line of JSON per failure.
"""

import contextlib
import errno
import gc
import itertools
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport import api
from lucky_transport.errors import TransportError
from lucky_transport.shm.files import mapping
from tests.support.interrupted_moments import interrupted_start
from tests.support.resources import measure
from tests.support.waiting import until


@contextlib.contextmanager
def no_descriptors(allowed: int) -> Iterator[None]:
    """Let this process open `allowed` further descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = [os.dup(0) for _ in range(allowed)]
    highest = max(opened, default=-1)
    with open(os.devnull) as free:
        highest = max(highest, free.fileno() - 1)
    for fd in opened:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@contextlib.contextmanager
def no_threads(allowed: int) -> Iterator[None]:
    """Let this process start `allowed` further threads."""
    start, left = threading.Thread.start, itertools.count(allowed, -1)

    def refuse(thread: threading.Thread) -> None:
        if next(left) <= 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextlib.contextmanager
def no_memory(allowed: int) -> Iterator[None]:
    """Let this process map `allowed` further files of shared memory."""
    made, left = mapping.Mapping, itertools.count(allowed, -1)

    def refuse(fd: int, size: int) -> Any:
        if next(left) <= 0:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return made(fd, size)

    mapping.Mapping = refuse  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        mapping.Mapping = made  # type: ignore[misc]


def interrupts(allowed: int) -> contextlib.AbstractContextManager[None]:
    """Have a signal handler raise in the start of a thread, after `allowed` others."""
    return interrupted_start(KeyboardInterrupt, allowed)


FAULTS = {one.__name__: one for one in (no_descriptors, no_threads, no_memory, interrupts)}


def held(prefix: str) -> list[Any]:
    """Return what this process holds: descriptors by kind, threads, files and sockets whose name begins as asked."""
    now = measure(prefix)
    runtime = os.environ["XDG_RUNTIME_DIR"]
    sockets = sorted(os.path.join(folder, name) for folder, _, names in os.walk(runtime) for name in names)
    return [now.descriptors, sorted(thread.name for thread in threading.enumerate()), now.files, sockets]


def main(fault: str, prefix: str, engine: str, *endpoints: str) -> None:
    """See the module."""
    for _ in range(2):
        api.serve(engine, endpoints).stop()  # what is opened once in a process, and for good
    gc.collect()
    gc.disable()
    before = held(prefix)
    for step in itertools.count():
        error: BaseException | None = None
        serving = None
        with FAULTS[fault](step):
            try:
                serving = api.serve(engine, endpoints)
            except BaseException as raised:
                error = raised.with_traceback(None)
                error.__context__ = error.__cause__ = None
        if serving is not None:
            serving.stop()
            return
        with contextlib.suppress(AssertionError):
            until(lambda: held(prefix) == before, 5.0)
        after = held(prefix)
        try:
            api.serve(engine, endpoints).stop()
            again = ""
        except TransportError as refused:
            again = str(refused)
        line = {
            "step": step,
            "is_typed": isinstance(error, TransportError),
            "error": f"{type(error).__name__}: {error}",
            "before": before,
            "after": after,
            "again": again,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
