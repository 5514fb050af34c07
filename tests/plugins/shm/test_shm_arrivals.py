"""A client that comes or leaves while the engine looks: neither is taken for the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from lucky_transport import api, native
from lucky_transport.config import load_settings
from lucky_transport.engine import RESET
from lucky_transport.process import unique_name
from lucky_transport.shm.files.liveness import start_time
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import FIELDS
from tests.support.waiting import PATIENCE_S, until

SHM = Path("/dev/shm")
#: Long enough for an engine that waits for something to look at its client a few times.
LOOKS_S = 0.2


@pytest.fixture
def name() -> Iterator[str]:
    one = unique_name()
    yield one
    assert list(SHM.glob(f"{one}*")) == []


@contextmanager
def served(name: str) -> Iterator[mmap]:
    """Serve an engine; its segment, as a client that writes it word by word sees it."""
    with (
        api.serve("toy", f"shm://{name}", num_envs=2),
        (SHM / name).open("r+b") as file,
        mmap(file.fileno(), 0) as memory,
    ):
        yield memory


def steps(name: str) -> bool:
    """True when a client of its own can step the engine."""
    with api.open_transport(f"shm://{name}", load_settings({})) as client:
        client.step(client.actions, control=np.full(2, RESET, np.uint8))
        return client.step(client.actions).seq == 2


def test_a_client_that_takes_long_to_come_is_not_taken_for_one_that_left(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()))
        header.put(memory, "client_features", 1)
        time.sleep(LOOKS_S)
        header.put(memory, "client_pid", os.getpid())
        time.sleep(LOOKS_S)
        assert header.get(memory, "client_features") == 1
        assert header.get(memory, "client_pid") == os.getpid()
        header.put(memory, "client_start", 0)
        header.put(memory, "client_pid", 0)
        until(lambda: not header.get(memory, "client_features"))


def test_a_client_that_came_and_left_before_the_engine_looked_is_let_go(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_features", 1)
        until(lambda: not header.get(memory, "client_features"))
        assert steps(name)


def test_a_client_that_died_before_it_said_that_it_is_there_is_let_go(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lucky_transport_shm.server.LOOP_SLICE_NS", int(2 * PATIENCE_S * 1e9))
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()) + 1)
        header.put(memory, "client_features", 1)
        until(lambda: header.get(memory, "park_engine"))
        native.wake(memory, FIELDS["park_engine"].offset)
        time.sleep(LOOKS_S)
        header.put(memory, "client_pid", os.getpid())
        until(lambda: not header.get(memory, "client_pid"))


def test_a_client_says_that_it_comes_and_that_it_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[bool, int]] = []

    def wake(memory: mmap, park: int, wake: Callable[[mmap, int], object] = native.wake) -> None:
        said.append((header.get(memory, "client_features") > 0, header.get(memory, "client_pid")))
        wake(memory, park)

    with served(name):
        monkeypatch.setattr(native, "wake", wake)
        assert steps(name)
    assert said[:2] == [(True, 0), (True, os.getpid())]


def test_a_client_that_died_while_it_came_is_in_nobodys_way(name: str) -> None:
    with served(name) as memory:
        header.put(memory, "client_start", start_time(os.getpid()))
        header.put(memory, "client_features", 1)
        time.sleep(LOOKS_S)
        assert steps(name)
