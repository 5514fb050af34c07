"""Actions in an engine's device memory, and the order of both sides' work by two events, through a segment.

The driver is the fake of `tests.support.fake_cuda`: work on a stream is done only when somebody waits for it, so a wait
that is missing shows as a wrong value. The segment and both ends of it are real.
"""

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.diagnosis import inspection
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import DeviceError
from lucky_transport.interceptors.interceptor import Interceptor
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import Feature
from tests.plugins.shm.conftest import HALF, mapping_of
from tests.support.fake_cuda import FakeDriver, FakeStream, FakeTensor, FakeTorch
from tests.support.late_engine import NUM_ENVS, LateEngine, policy, shown_after

pytestmark = pytest.mark.usefixtures("torch")

STEPS = 6
ZEROS = np.zeros((NUM_ENVS, 2), np.float32)
#: What a GPU gets done between two calls of the program, by name.
Gpu = Callable[[LateEngine, FakeTorch], object]
GPUS: dict[str, Gpu] = {
    "nothing": lambda engine, torch: None,
    "the engine's work": lambda engine, torch: engine.stream.synchronize(),
    "the client's work": lambda engine, torch: torch.streams[0].synchronize(),
}


def connect(serving: Serving, **options: Any) -> VectorEnv:
    return api.make(endpoint=str(serving.endpoints[0]), **options)


@pytest.fixture
def env(serving: Serving) -> Generator[VectorEnv]:
    with connect(serving) as made:
        made.reset()
        yield made


@pytest.fixture
def on_device(serving: Serving) -> Generator[VectorEnv]:
    """Its observations stay on the device."""
    with connect(serving, observations="device") as made:
        made.reset()
        yield made


def expected() -> list[NDArray[Any]]:
    """Return what `trajectory` shows when every piece of work is done in its turn."""
    frames, given = [shown_after()], list[NDArray[Any]]()
    for _ in range(STEPS):
        given.append(policy(frames[-1]))
        frames.append(shown_after(*given))
    return frames[1:]


def trajectory(env: VectorEnv, engine: LateEngine, torch: FakeTorch, gpu: Gpu) -> list[NDArray[Any]]:
    """Return the observations of some steps, whose actions come from those before; nothing of it leaves the device."""
    env.reset()
    seen = env.observations_torch()
    frames: list[FakeTensor] = []
    actions: list[FakeTensor] = []  # kept: PyTorch gives memory away in the order of the stream
    for _ in range(STEPS):
        actions.append(seen.map(policy))
        gpu(engine, torch)
        env.step(actions[-1])
        gpu(engine, torch)
        seen = env.observations_torch()
        gpu(engine, torch)
        frames.append(seen.map(np.copy))
    return [one.cpu().numpy() for one in frames]


# -- values


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS.keys())
@pytest.mark.parametrize("copy", [True, False], ids=["copies", "views"])
@pytest.mark.parametrize("ordered", [True, False], ids=["events", "no events"])
@pytest.mark.parametrize("slots", [1, 2], ids=["one slot", "two slots"])
def test_whatever_the_gpu_does_first_every_value_is_right(
    driver: FakeDriver, torch: FakeTorch, ordered: bool, copy: bool, gpu: Gpu, slots: int
) -> None:
    engine = LateEngine(driver, ordered=ordered)
    with (
        api.serve(engine, f"shm://{unique_name()}", observation_slots=slots) as serving,
        connect(serving, observations="device", copy=copy) as env,
    ):
        np.testing.assert_array_equal(trajectory(env, engine, torch, gpu), expected())


def test_a_step_with_actions_on_the_device_waits_for_neither_stream(
    serving: Serving, engine: LateEngine, torch: FakeTorch
) -> None:
    with connect(serving, observations="device", copy=False) as env:
        env.reset()
        seen = env.observations_torch()
        before = (engine.stream.done, torch.streams[0].done)
        actions: list[FakeTensor] = []
        for _ in range(STEPS):
            actions.append(seen.map(policy))
            env.step(actions[-1])
            seen = env.observations_torch()
        assert (engine.stream.done, torch.streams[0].done) == before


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS.keys())
def test_actions_are_not_overwritten_before_the_engine_has_read_them(
    on_device: VectorEnv, engine: LateEngine, torch: FakeTorch, gpu: Gpu
) -> None:
    actions = [np.full((NUM_ENVS, 2), value, np.float32) for value in (0.25, -0.5, 0.75)]
    for given in actions:  # no observations are read between them
        on_device.step(torch.on_gpu(given))
        gpu(engine, torch)
    np.testing.assert_array_equal(on_device.observations_torch().cpu().numpy(), shown_after(*actions))


def test_what_another_stream_of_the_client_reads_is_not_overwritten_either(
    on_device: VectorEnv, engine: LateEngine, torch: FakeTorch
) -> None:
    other = FakeStream()
    with torch.present(other):
        seen = on_device.observations_torch()
    on_device.step(torch.on_gpu(ZEROS.copy()))
    engine.stream.synchronize()
    other.synchronize()
    np.testing.assert_array_equal(seen.numpy(), np.ones((NUM_ENVS, 4)))


@pytest.mark.parametrize("transport", ["shm", "inproc"])
def test_actions_of_the_host_and_of_the_device_take_turns(
    engine: LateEngine, torch: FakeTorch, driver: FakeDriver, transport: str
) -> None:
    given: list[NDArray[Any]] = []
    with api.serve(engine, f"{transport}://{unique_name()}" if transport == "shm" else "inproc:") as serving:
        with connect(serving) as env:
            env.reset()
            for n in range(STEPS):
                given.append(np.full((NUM_ENVS, 2), n / STEPS, np.float32))
                seen = env.step(given[-1] if n % 2 else torch.on_gpu(given[-1]))[0]
                np.testing.assert_array_equal(seen, shown_after(*given))
        assert engine.from_host_calls == (1 + STEPS // 2 if transport == "shm" else 1 + STEPS)


def test_the_hosts_actions_are_left_alone_and_the_handle_is_opened_once(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch, driver: FakeDriver
) -> None:
    env.transport.actions[:] = 7
    opened = len(driver.opened)
    for _ in range(3):
        env.step(torch.on_gpu(HALF))
    assert (env.transport.actions == 7).all()
    assert len(driver.opened) == opened + 1


def test_a_step_in_two_halves_takes_them_too(env: VectorEnv, engine: LateEngine, torch: FakeTorch) -> None:
    env.step_async(torch.on_gpu(HALF))
    np.testing.assert_array_equal(env.step_wait()[0], shown_after(HALF))
    assert engine.from_host_calls == 1


# -- what goes by the host


@pytest.mark.parametrize(
    "given",
    [HALF.astype(np.float64), np.full((NUM_ENVS, 4), 0.5, np.float32)[:, ::2]],
    ids=["dtype", "layout"],
)
def test_another_dtype_or_layout_goes_by_the_host(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch, given: NDArray[Any]
) -> None:
    env.step(torch.on_gpu(given))
    engine.stream.synchronize()
    np.testing.assert_array_equal(engine.given, given)
    assert engine.from_host_calls == 2


def test_a_wrong_shape_is_the_error_of_every_transport_and_nothing_was_sent(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch
) -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 3\), expected \(3, 2\): axis 1 has 3 instead of 2"):
        env.step(torch.on_gpu(np.zeros((NUM_ENVS, 3), np.float32)))
    assert len(env.step(ZEROS)) == 5


def test_strict_validation_looks_at_the_values_on_the_host(
    serving: Serving, engine: LateEngine, torch: FakeTorch
) -> None:
    with connect(serving, validate="strict") as env:
        env.reset()
        with pytest.raises(ValueError, match=r"out of bounds: 2\.0"):
            env.step(torch.on_gpu(np.full((NUM_ENVS, 2), 2, np.float32)))
        env.step(torch.on_gpu(ZEROS.copy()))
        assert engine.from_host_calls == 2


def test_interceptors_of_the_engine_see_actions_so_these_go_by_the_host(engine: LateEngine, torch: FakeTorch) -> None:
    seen: list[NDArray[Any]] = []

    class Notes(Interceptor):
        def intercept_step(self, continuation: Any, details: Any, actions: Any, control: Any) -> Any:
            seen.append(actions.copy())
            return continuation(details, actions, control)

    with api.serve(engine, f"shm://{unique_name()}", interceptors=[Notes()]) as serving, connect(serving) as env:
        env.reset()
        env.step(torch.on_gpu(HALF))
    np.testing.assert_array_equal(seen[-1], HALF)


# -- replaced memory, and actions that were not sent


def test_memory_for_actions_that_moves_in_a_step_is_opened_anew(
    serving: Serving, engine: LateEngine, torch: FakeTorch
) -> None:
    with connect(serving, observations="device") as env:
        engine.moves_in_step = True
        np.testing.assert_array_equal(trajectory(env, engine, torch, GPUS["nothing"]), expected())
        assert not engine.actions.wait_unused(0)  # the client has that of the last step open
    assert engine.actions.wait_unused(0)


def test_memory_that_moves_between_steps_fails_the_step_and_steps_nothing(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = env.transport._device  # pyright: ignore[reportAttributeAccessIssue]
    say_written = device.say_written

    def move_first(seq: int) -> None:
        engine.move_actions()
        say_written(seq)

    monkeypatch.setattr(device, "say_written", move_first)
    with pytest.raises(DeviceError, match=r"replaced its memory for actions.*publish DeviceActions"):
        env.step(torch.on_gpu(ZEROS.copy()))
    assert engine.stream.done == 2  # the reset: its actions, and its step


def test_actions_that_were_copied_but_not_sent_are_not_those_of_the_next_step(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch
) -> None:
    def interrupted(actions: Any, control: Any) -> int:
        raise KeyboardInterrupt

    transport: Any = env.transport
    channel = transport._channel
    transport._channel = SimpleNamespace(seq=channel.seq, send=interrupted)
    with pytest.raises(KeyboardInterrupt):
        transport._send_those_there(None)
    transport._channel = channel
    assert header.get(mapping_of(env), "gpu_act_seq") == 0
    np.testing.assert_array_equal(env.step(HALF)[0], shown_after(HALF))


# -- peers of other versions


def test_for_a_client_that_knows_no_events_each_step_is_done_when_it_returns(
    on_device: VectorEnv, engine: LateEngine, torch: FakeTorch
) -> None:
    features = header.get(mapping_of(on_device), "client_features")
    header.put(mapping_of(on_device), "client_features", features & ~Feature.EVENTS)
    for _ in range(3):
        on_device.step(ZEROS)
        assert engine.stream.done == engine.stream.given


def test_an_engine_whose_driver_makes_no_events_waits_for_each_step_and_says_so_once(
    driver: FakeDriver, engine: LateEngine, torch: FakeTorch, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fails["make_event"] = "CUDA_ERROR_NOT_SUPPORTED (operation not supported)"
    with connect(serving, observations="device") as env:
        np.testing.assert_array_equal(trajectory(env, engine, torch, GPUS["nothing"]), expected())
        assert header.get(mapping_of(env), "gpu_events_generation") == 0
    (warning,) = [one for one in caplog.messages if "events" in one]
    assert "CUDA_ERROR_NOT_SUPPORTED" in warning


@pytest.mark.exhaustive
def test_an_engine_of_the_host_offers_neither_and_takes_actions_of_a_gpu_on_the_host(torch: FakeTorch) -> None:
    given = HALF[:2]
    with api.make("toy", 2, transport="shm") as env, api.make("toy", 2, transport="inproc") as same:
        env.reset(seed=1)
        same.reset(seed=1)
        np.testing.assert_array_equal(env.step(torch.on_gpu(given))[0], same.step(given)[0])
        names = ("gpu_act_available", "gpu_act_generation", "gpu_act_seq", "gpu_events_generation")
        assert [header.get(mapping_of(env), name) for name in names] == [0, 0, 0, 0]


def test_inspection_says_what_is_offered(serving: Serving, env: VectorEnv, torch: FakeTorch) -> None:
    gpu = inspection.of_segment(serving.endpoints[0].address).gpu
    assert gpu == (
        f"{NUM_ENVS * 16} bytes on the engine's CUDA device 0, UUID {'01' * 16}, by CUDA IPC; here on demand; "
        f"{NUM_ENVS * 8} bytes for actions; ordered by events"
    )


# -- bytes of a peer


def test_actions_that_a_client_claims_to_have_written_are_not_believed(
    env: VectorEnv, engine: LateEngine, torch: FakeTorch
) -> None:
    header.put(mapping_of(env), "gpu_act_seq", header.get(mapping_of(env), "action_seq") + 1)
    with pytest.raises(DeviceError, match="replaced its memory for actions"):
        env.step(ZEROS)
