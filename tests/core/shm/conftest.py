"""What tests of pipes share: a listener, a client that meets it, other processes, and no descriptor left behind."""

import gc
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ClosedError
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.poller import Poller
from tests.core.test_fork import in_a_child
from tests.support.waiting import beside, soon, until, until_none_left

#: Starts a Python process with this code, arguments and descriptors; its output is a pipe of text lines.
Start = Callable[..., Any]
Connect = Callable[..., tuple[MemfdPipe, MemfdPipe]]


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    """Fails the test when it leaves more descriptors open than it found; its threads may take a moment to end."""
    gc.collect()
    before = open_descriptors()
    yield
    gc.collect()
    until_none_left(lambda: open_descriptors() - before)


def open_descriptors() -> Counter[str]:
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
        except FileNotFoundError:  # the one that listed them
            continue
    return found


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python processes that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=pass_fds, bufsize=1
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def listener(tmp_path: Path, no_descriptor_left: None) -> Iterator[Listener]:
    """An engine's end in a directory of the test, with small rings and short patience; no descriptor may stay open."""
    with Listener("demo", directory=tmp_path, ring_bytes=4096, hello_timeout_s=0.1) as listening:
        yield listening


def meet(folder: Path, let_in: Callable[[], list[MemfdPipe]], **options: Any) -> tuple[MemfdPipe, MemfdPipe]:
    """Connect to what listens in a folder, and lets clients in; return the client's end and the engine's."""
    clients: list[MemfdPipe] = []
    with beside(lambda: clients.append(connect_pipe("demo", soon(), directories=[folder], **options))):
        [engine] = until(let_in)
    return clients[0], engine


@pytest.fixture
def connect(listener: Listener) -> Iterator[Connect]:
    """Make a pipe and return its ends, the client's first; both are closed with the test."""
    with ExitStack() as made:

        def both(*, strategy: int = 1) -> tuple[MemfdPipe, MemfdPipe]:
            ends = meet(listener.path.parent, listener.advance, strategy=strategy)
            for pipe in ends:
                made.callback(pipe.close)
            return ends

        yield both


@pytest.fixture
def pipes(tmp_path: Path, no_descriptor_left: None) -> Iterator[Poller]:
    """A set of pipes that nobody has joined yet."""
    listener = Listener("demo", directory=tmp_path, ring_bytes=4096, hello_timeout_s=0.1)
    with Poller(listener) as waiting:
        yield waiting


@pytest.fixture
def join(pipes: Poller, tmp_path: Path) -> Iterator[Connect]:
    """Let a client of this process in; return its end and the engine's."""
    with ExitStack() as clients:

        def enter() -> tuple[MemfdPipe, MemfdPipe]:
            ends = meet(tmp_path, lambda: pipes.wait(1_000_000_000).opened)
            clients.callback(ends[0].close)
            return ends

        yield enter


# -- strangers


def knock(path: Path) -> socket.socket:
    """Connect and say nothing."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def hung_up(connection: socket.socket) -> bool:
    """True when the other side closed the connection."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and connection.recv(4096) == b""
    except ConnectionResetError:
        return True


def advance_until(listener: Listener, done: Callable[[], bool]) -> list[MemfdPipe]:
    """Serve the listener until `done()`; ten seconds at most."""
    until = time.monotonic() + 10
    pipes: list[MemfdPipe] = []
    while not done():
        assert time.monotonic() < until
        pipes.extend(listener.advance())
        time.sleep(0.001)
    return pipes


# -- forks


def assert_refused_in_a_child(*uses: Callable[[], object], close: Callable[[], object] = lambda: None) -> None:
    """Have a forked child use what is its parent's: each use is a ClosedError that says so. It closes it, too."""

    def are_refused() -> bool:
        for use in uses:
            with pytest.raises(ClosedError, match=r"belongs to the parent process; connect again after fork\(\)"):
                use()
        close()
        return True

    assert in_a_child(are_refused)


# -- event loops


def is_readable(watched: MemfdPipe | Poller, timeout_s: float = 0.0) -> bool:
    """True when the descriptor that an event loop watches is readable within the timeout."""
    poller = select.poll()
    poller.register(watched.fileno(), select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
