"""What tests of shared memory share: names of segments, of which nothing is left; toys there; a GPU that is none."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.cuda import libcuda
from lucky_transport.engine import RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.serving import Serving
from tests.support.fake_cuda import FakeDriver, FakeTorch
from tests.support.late_engine import NUM_ENVS, LateEngine
from tests.support.waiting import until_none_left

SCHEMA = method("AgentService/GetAgentSchema")
#: Actions for the engine on the device.
HALF = np.full((NUM_ENVS, 2), 0.5, np.float32)


@contextlib.contextmanager
def engine_process(name: str, engine: str = "toy", **options: Any) -> Iterator[EngineProcess]:
    process = EngineProcess(engine, [f"shm://{name}"], num_envs=options.pop("num_envs", 2), options=options)
    try:
        yield process
    finally:
        process.stop()


def connect(name: str, **settings: Any) -> Any:
    return api.open_transport(f"shm://{name}", load_settings(settings))


def reset(client: Any) -> Any:
    return client.step(client.actions, np.full(client.spec.num_envs, RESET, np.uint8))


def mapping_of(env: VectorEnv) -> Any:
    """Return the memory of an env's segment."""
    return env.transport._segment.mapping  # pyright: ignore[reportAttributeAccessIssue]


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


@pytest.fixture
def engine(driver: FakeDriver) -> LateEngine:
    """An engine on that device."""
    return LateEngine(driver)


@pytest.fixture
def serving(engine: LateEngine) -> Iterator[Serving]:
    """What serves it."""
    with api.serve(engine, f"shm://{unique_name()}") as started:
        yield started
