"""`observations_torch`: the newest observations as a tensor; copies to a GPU never see the frame after."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, ConfigError, DeviceError, LocalProtocolError, MissingExtra, SpecError
from lucky_transport.process import unique_name
from tests.core.test_fork import in_a_child
from tests.support.fake_cuda import FakeDriver, FakeEvent, FakeStream, FakeTorch

pytestmark = pytest.mark.usefixtures("torch", "driver")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(libcuda, "load_driver", lambda: fake)
    return fake


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)  # pyright: ignore[reportArgumentType]
    return fake


@pytest.fixture(scope="module")
def endpoint() -> Generator[str]:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=3) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture
def env(endpoint: str) -> Generator[VectorEnv]:
    with api.make(endpoint=endpoint) as made:
        yield made


#: Observations that are copied beside the program, a little more than are copied while it waits.
MANY = {"obs_size": 1_500_000 // 4 // 3 + 1}


@contextmanager
def serve_many(slots: int) -> Generator[VectorEnv]:
    with (
        api.serve("toy", f"shm://{unique_name()}", num_envs=3, options=MANY, observation_slots=slots) as serving,
        api.make(endpoint=str(serving.endpoints[0]), observation_slots=slots) as env,
    ):
        yield env


@pytest.fixture(scope="module")
def many_endpoint() -> Generator[str]:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=3, options=MANY) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture
def many(many_endpoint: str) -> Generator[VectorEnv]:
    with api.make(endpoint=many_endpoint) as made:
        yield made


def step(env: VectorEnv) -> NDArray[Any]:
    return env.step(np.full(env.action_space.shape or (), 0.5, np.float32))[0]


# -- the CPU


def test_on_the_cpu_a_copying_env_gives_a_tensor_of_its_own(env: VectorEnv) -> None:
    expected, _ = env.reset(seed=1)
    tensor = env.observations_torch("cpu")
    step(env)
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_on_the_cpu_an_env_of_views_gives_the_memory_of_the_frame(endpoint: str) -> None:
    with api.make(endpoint=endpoint, copy=False) as env:
        view, _ = env.reset(seed=1)
        tensor = env.observations_torch("cpu")
        assert np.shares_memory(tensor.numpy(), view)
        assert not view.flags.writeable


@pytest.mark.parametrize(("transport", "mode"), [("inproc", "NextStep"), ("inproc", "SameStep"), ("shm", "NextStep")])
def test_it_shows_the_newest_frame_of_resets_steps_and_awaited_steps(transport: str, mode: str) -> None:
    with api.make("toy", 2, transport=transport, autoreset_mode=mode, options={"episode_steps": 3}) as env:
        np.testing.assert_array_equal(env.reset(seed=2)[0], env.observations_torch("cpu").numpy())
        for _ in range(7):
            np.testing.assert_array_equal(step(env), env.observations_torch("cpu").numpy())
        env.step_async(np.zeros((2, *env.batch_spec.action.shape), np.float32))
        np.testing.assert_array_equal(env.step_wait()[0], env.observations_torch("cpu").numpy())


def test_a_device_of_another_kind_gets_a_copy(env: VectorEnv) -> None:
    env.reset(seed=1)
    assert env.observations_torch("meta").device.type == "meta"


# -- copies to a GPU: how much is done for one; their values are in tests/gpu


def test_few_observations_take_no_stream_event_locked_page_or_wait(env: VectorEnv, driver: FakeDriver) -> None:
    env.reset(seed=1)
    made = FakeStream.made, FakeEvent.made
    for _ in range(3):
        expected = step(env)
        np.testing.assert_array_equal(env.observations_torch("cuda").numpy(), expected)
    assert (FakeStream.made, FakeEvent.made, driver.registered) == (*made, {})


def test_one_stream_and_an_event_for_each_slot_serve_all_copies_of_many() -> None:
    for slots in (1, 2):
        with serve_many(slots) as env:
            env.reset(seed=1)
            made = FakeStream.made, FakeEvent.made
            for _ in range(5):
                step(env)
                env.observations_torch("cuda")
                env.observations_torch("cuda:0")
                env.observations_torch(0)
            assert (FakeStream.made - made[0], FakeEvent.made - made[1]) == (1, slots)


def test_the_segment_is_locked_once_and_unlocked_by_close(many: VectorEnv, driver: FakeDriver) -> None:
    expected, _ = many.reset(seed=1)
    assert driver.registered == {}  # a program that asks for no tensor has no driver loaded
    tensors = [many.observations_torch("cuda") for _ in range(2)]
    (size,) = driver.registered.values()
    assert size >= expected.nbytes
    many.close()
    assert driver.registered == {}
    for one in tensors:  # closing waits for copies
        np.testing.assert_array_equal(one.numpy(), expected)


def test_memory_that_cannot_be_locked_is_copied_at_once_with_one_warning(
    many: VectorEnv, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fails["register"] = "CUDA_ERROR_OPERATING_SYSTEM (OS call failed)"
    expected, _ = many.reset(seed=1)
    for _ in range(3):
        np.testing.assert_array_equal(many.observations_torch("cuda").numpy(), expected)
    (warning,) = caplog.messages
    assert "stays pageable" in warning
    assert "OS call failed" in warning


def test_a_transport_without_a_segment_copies_many_at_once_too() -> None:
    with api.make("toy", 3, transport="inproc", options=MANY) as env:
        expected, _ = env.reset(seed=1)
        np.testing.assert_array_equal(env.observations_torch("cuda").numpy(), expected)


def test_pages_that_cannot_be_unlocked_are_logged_and_closing_goes_on(
    many_endpoint: str, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with api.make(endpoint=many_endpoint) as env:
        env.reset(seed=1)
        env.observations_torch("cuda")
        driver.fails["unregister"] = "CUDA_ERROR_UNKNOWN"
    assert "were not unlocked" in caplog.text
    with api.make(endpoint=many_endpoint) as env:  # the place of the client that steps is free again
        env.reset(seed=1)


def test_with_two_slots_an_exchange_waits_for_copies_of_its_own_slot_alone() -> None:
    with serve_many(slots=2) as env:
        expected, _ = env.reset(seed=1)
        tensor = env.observations_torch("cuda")
        step(env)
        assert (tensor.numpy() == 99).all()
        following = env.observations_torch("cuda")
        step(env)
        np.testing.assert_array_equal(tensor.numpy(), expected)
        assert (following.numpy() == 99).all()


def test_with_two_slots_the_last_frame_is_shown_on_the_cpu_while_the_next_is_written() -> None:
    with serve_many(slots=2) as env:
        expected, _ = env.reset(seed=1)
        for _ in range(4):
            env.step_async(np.full((3, 2), 0.5, np.float32))
            np.testing.assert_array_equal(env.observations_torch("cpu").numpy(), expected)
            expected = env.step_wait()[0]


# -- errors


def under_way(env: VectorEnv) -> None:
    env.reset(seed=1)
    env.step_async(np.zeros((3, *env.batch_spec.action.shape), np.float32))


def closed(env: VectorEnv) -> None:
    env.reset(seed=1)
    env.close()


#: What comes before, the device, and what is raised.
REFUSALS: dict[str, tuple[Callable[[VectorEnv], object], object, type[Exception], str]] = {
    "never reset": (lambda env: None, "cpu", LocalProtocolError, "never reset"),
    "under way": (under_way, "cpu", LocalProtocolError, "step_wait"),
    "closed": (closed, "cpu", ClosedError, "closed"),
    "no such device": (lambda env: env.reset(), "cuda:3", DeviceError, "there are 1 CUDA devices"),
    "no such number": (lambda env: env.reset(), 3, DeviceError, "device 3: there are 1 CUDA devices"),
    "no support": (lambda env: env.reset(), "mps", DeviceError, "device 'mps': PyTorch is not linked with"),
    "no device": (lambda env: env.reset(), "gpu", ConfigError, "'gpu'"),
}


@pytest.mark.parametrize(("before", "device", "kind", "text"), REFUSALS.values(), ids=list(REFUSALS))
def test_where_there_is_nothing_to_show_it_is_refused(
    endpoint: str, before: Callable[[VectorEnv], object], device: Any, kind: type[Exception], text: str
) -> None:
    with api.make(endpoint=endpoint) as env:
        before(env)
        with pytest.raises(kind, match=text):
            env.observations_torch(device)


@pytest.mark.parametrize(
    ("found", "device", "kind", "text"),
    [
        (None, "cpu", MissingExtra, "pip install torch"),
        (FakeTorch(devices=0), "cuda", DeviceError, r"sees no CUDA device.*lucky-transport doctor"),
        (FakeTorch(devices=0), 0, DeviceError, r"device 0: .*sees no CUDA device"),
    ],
    ids=["no PyTorch", "no GPU", "no GPU 0"],
)
def test_what_is_missing_is_named_with_the_remedy(
    env: VectorEnv, monkeypatch: pytest.MonkeyPatch, found: Any, device: Any, kind: type[Exception], text: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", found)
    env.reset(seed=1)
    with pytest.raises(kind, match=text):
        env.observations_torch(device)


@pytest.mark.parametrize(
    ("engine", "lacks", "text"),
    [("toy", "float32", "no tensors of float32"), ("toy:composite", "", r"torch\.from_numpy")],
)
def test_observations_that_make_no_tensor_are_refused(torch: FakeTorch, engine: str, lacks: str, text: str) -> None:
    torch.lacks = lacks
    with api.make(engine, 2, transport="inproc") as env:
        env.reset(seed=1)
        with pytest.raises(SpecError, match=text):
            env.observations_torch("cpu")


def test_a_forked_child_is_refused_and_leaves_the_parents_pages_locked(many: VectorEnv, driver: FakeDriver) -> None:
    expected, _ = many.reset(seed=1)
    tensor = many.observations_torch("cuda")

    def is_refused() -> bool:
        with pytest.raises(ClosedError):
            many.observations_torch("cpu")
        many.close()
        return bool(driver.registered)

    assert in_a_child(is_refused)
    assert driver.registered
    step(many)
    np.testing.assert_array_equal(tensor.numpy(), expected)
