"""The device that each test of this folder runs with: a CUDA device, and a stand-in for machines without one."""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.env.vector_env import VectorEnv
from tests.gpu.engine import EngineProgram, EngineUnderTest, engine_program, local_engine
from tests.support.build_once import stub_library
from tests.support.fake_cuda import FakeStream, FakeTorch

__all__ = ["LARGE", "NUM_ENVS", "SMALL", "Gpu", "actions_at", "reference"]

NUM_ENVS = 4
#: Observations of an env: few, and more than are copied while the program waits.
SMALL, LARGE = 8, 100_000


def pytest_itemcollected(item: pytest.Item) -> None:
    """What PyTorch warns of on a machine with a device is shown; it fails no test."""
    if "[cuda" in item.name or "-cuda" in item.name:
        item.add_marker(pytest.mark.filterwarnings("default"))


class Gpu:
    """torch: PyTorch, or a stand-in of which one `is_real` is False. library: the CUDA driver's."""

    def __init__(self, torch: Any, library: str, *, is_real: bool) -> None:
        self.torch = torch
        self.library = library
        self.is_real = is_real
        self._matrix: Any = None

    def times(self, count: int) -> int:
        """Return how often something is tried: `count` times on a device, a hundredth of it on the stand-in."""
        return count if self.is_real else max(2, count // 100)

    def busy(self) -> None:
        """Give the present stream work that takes some milliseconds."""
        if self.is_real:
            if self._matrix is None:
                self._matrix = self.torch.zeros(4096, 4096, device="cuda")
            self._matrix = self._matrix @ self._matrix
        else:
            FakeStream.active.append_work(lambda: None)

    def tensor(self, array: NDArray[Any]) -> Any:
        """Return a copy of the array on the GPU."""
        return self.torch.from_numpy(array.copy()).to("cuda")

    def assert_under_way(self, tensor: Any) -> None:
        """On the stand-in, whose copies are done when something waits for them: that nothing has."""
        if not self.is_real:
            assert (tensor.numpy() == 99).all()

    def assert_done(self, tensor: Any, expected: NDArray[Any]) -> None:
        """On the stand-in: that the copy is done, although nothing was given to the device since."""
        if not self.is_real:
            np.testing.assert_array_equal(tensor.numpy(), expected)

    def assert_open(self, count: int) -> None:
        """On the stand-in: that this process has so many allocations of other engines open."""
        if not self.is_real:
            assert ctypes.c_int.in_dll(ctypes.CDLL(self.library), "stub_opened").value == count

    def start(
        self, num_envs: int = NUM_ENVS, obs_size: int = SMALL, **options: Any
    ) -> AbstractContextManager[EngineUnderTest]:
        """Return a context: an engine with the options of a `DeviceToy`."""
        self._work_at_once(options)
        start = engine_program if self.is_real else local_engine
        return start(self.library, num_envs=num_envs, obs_size=obs_size, **options)

    def start_program(self, **options: Any) -> AbstractContextManager[EngineProgram]:
        """As `start`, in a process of its own in any case."""
        self._work_at_once(options)
        return engine_program(self.library, num_envs=NUM_ENVS, obs_size=SMALL, **options)

    def _work_at_once(self, options: dict[str, Any]) -> None:
        """Have the stand-in's streams keep an order that its events cannot: tests of that have `late_engine`."""
        if not self.is_real and options.get("on_stream"):
            FakeStream.at_once = True


def why_no_cuda() -> str:
    """Return why no test can use a CUDA device here, "" where they can."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "no CUDA device: PyTorch is not installed"
    if not torch.cuda.is_available():
        return f"no CUDA device: PyTorch {torch.__version__} sees none"
    return ""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stand-in for the driver, built before the first test that needs it."""
    return stub_library(tmp_path_factory)


@pytest.fixture(params=["stand-in", "cuda"])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, library: str) -> Iterator[Gpu]:
    """The device; two of them see the same tests."""
    if request.param == "cuda":
        if why_not := why_no_cuda():
            pytest.skip(why_not)
        import torch  # pyright: ignore[reportMissingImports]

        yield Gpu(torch, libcuda.LIBRARY, is_real=True)
        return
    torch = FakeTorch(devices=2)
    monkeypatch.setattr(libcuda, "LIBRARY", library)
    monkeypatch.setitem(sys.modules, "torch", torch)  # pyright: ignore[reportArgumentType]
    ctypes.c_int.in_dll(ctypes.CDLL(library), "stub_opened").value = 0
    ctypes.c_int.in_dll(ctypes.CDLL(library), "stub_any_memory").value = 1
    libcuda.forget_driver()
    monkeypatch.setattr(FakeStream, "at_once", False)
    yield Gpu(torch, library, is_real=False)
    ctypes.c_int.in_dll(ctypes.CDLL(library), "stub_any_memory").value = 0
    libcuda.forget_driver()


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    """Connect to an engine and reset it with seed 4; the envs are closed afterwards."""
    with ExitStack() as envs:

        def made(engine: EngineUnderTest, **options: Any) -> Any:
            env = envs.enter_context(api.make(endpoint=engine.endpoint, **options))
            env.reset(seed=4)
            return env

        yield made


def actions_at(step: int, num_envs: int = NUM_ENVS) -> NDArray[np.float32]:
    """Return other actions for each step and env."""
    return np.sin(np.arange(2 * num_envs, dtype=np.float32) + step).reshape(num_envs, 2)


@contextmanager
def reference(obs_size: int = SMALL, num_envs: int = NUM_ENVS, **options: Any) -> Iterator[VectorEnv]:
    """A toy in this process, reset with seed 4: what it shows is what an engine on a GPU shows after the same calls."""
    made = api.make("toy", num_envs, options={"obs_size": obs_size, **options}, transport="inproc")
    with made as env:
        env.reset(seed=4)
        yield env
