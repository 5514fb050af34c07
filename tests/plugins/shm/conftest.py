"""What tests of shared memory share: names of segments, of which nothing is left; a GPU that is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.cuda import libcuda
from lucky_transport.process import unique_name
from tests.support.fake_cuda import FakeDriver, FakeTorch
from tests.support.waiting import until_none_left


@pytest.fixture
def name() -> Iterator[str]:
    """A segment name of this test's own; nothing of it may be left afterwards."""
    one = unique_name()
    yield one
    until_none_left(lambda: list(Path("/dev/shm").glob(f"{one}*")))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The CUDA driver of this process: a fake."""
    fake = FakeDriver()
    monkeypatch.setattr(libcuda, "load_driver", lambda: fake)
    return fake


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """What `import torch` gives: a fake whose device is that of `driver`."""
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)  # pyright: ignore[reportArgumentType]
    return fake
