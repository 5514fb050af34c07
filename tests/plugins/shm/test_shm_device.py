"""Observations in an engine's device memory, through a segment: offered, opened, replaced, closed, left by the dead.

The driver is a fake, whose device memory is memory of this process: no machine of the tests needs a GPU. The segment is
real, and everything that both ends write and check.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis import inspection
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import DeviceError, PeerDied, SegmentError, SpecError
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.serving import Serving
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import ACTIONS, OBSERVATIONS, EventOffer
from tests.core.test_fork import in_a_child
from tests.plugins.shm.conftest import HALF, mapping_of
from tests.support.fake_cuda import FakeDriver, FakeStream, FakeTorch, NeverEnds, never
from tests.support.late_engine import NUM_ENVS, LateEngine, shown_after
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("torch", "forked_engines")

#: Of the observations of a toy with so many envs.
OBS_BYTES = NUM_ENVS * 8 * 4


def connect(serving: Serving, **options: Any) -> VectorEnv:
    env = api.make(endpoint=str(serving.endpoints[0]), **options)
    env.reset()
    return env


# -- while all is well


def test_closing_closes_the_handle_and_a_tensor_that_is_held_keeps_it_open(
    serving: Serving, driver: FakeDriver
) -> None:
    env = connect(serving, copy=False)
    env.observations_torch("cuda")
    assert driver.open_count == 1
    env.close()
    assert driver.open_count == 0
    env = connect(serving, copy=False)
    tensor = env.observations_torch("cuda")
    env.close()
    assert driver.open_count == 1
    del tensor, env
    assert driver.open_count == 0


def test_an_engine_without_device_memory_offers_none_and_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> FakeDriver:
        raise AssertionError("asked for the driver")

    monkeypatch.setattr(libcuda, "load_driver", load)
    with api.serve("toy", f"shm://{unique_name()}") as plain, connect(plain) as env:
        assert device_offer.read_offer(mapping_of(env), OBSERVATIONS, env.batch_spec, "here") is None
        assert inspection.of_segment(plain.endpoints[0].address).gpu == ""


def test_an_engine_of_the_host_costs_one_look_at_the_header_for_each_tensor(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    get = header.get

    def counted(mapping: Any, name: str) -> Any:
        looked.append(name)
        return get(mapping, name)

    with api.serve("toy", f"shm://{unique_name()}") as plain, connect(plain) as env:
        env.observations_torch("cuda")
        monkeypatch.setattr(header, "get", counted)
        env.observations_torch("cuda")
        assert looked == ["gpu_available"]


def test_an_engine_that_stops_withdraws_what_it_offered(engine: LateEngine, driver: FakeDriver) -> None:
    serving = api.serve(engine, f"shm://{unique_name()}")
    with connect(serving) as env:
        mapping = mapping_of(env)
        assert device_offer.read_offer(mapping, OBSERVATIONS, env.batch_spec, "here") is not None
        serving.stop()
        assert device_offer.read_offer(mapping, OBSERVATIONS, env.batch_spec, "here") is None


def test_device_memory_of_a_type_that_pytorch_lacks_is_named(serving: Serving, torch: FakeTorch) -> None:
    torch.lacks = "float32"
    with connect(serving) as env, pytest.raises(SpecError, match="no tensors of float32"):
        env.observations_torch("cuda")


# -- bytes of a peer


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gpu_obs_size": 44}, SegmentError, "gpu_obs_size is 44, the spec says 48"),
        ({"gpu_obs_size": 1 << 60}, SegmentError, "the spec says 48"),
        ({"gpu_obs_offset": 260}, SegmentError, "do not lie in the 304 bytes"),
        ({"gpu_obs_offset": (1 << 64) - 4}, SegmentError, "do not lie in"),
        ({"gpu_obs_offset": 2}, SegmentError, "not aligned"),
        ({"gpu_obs_generation": 7}, SegmentError, "in the middle of a change"),
        ({"gpu_obs_handle": b"\xff" * 64}, DeviceError, "CUDA_ERROR_INVALID_HANDLE.*another process of this host"),
        ({"gpu_device_uuid": b"\xab" * 16}, DeviceError, r"GPU 0 \(abab.*does not see.*CUDA_VISIBLE_DEVICES"),
        ({"gpu_act_size": 4}, SegmentError, "gpu_act_size is 4, the spec says 24"),
        ({"gpu_act_offset": 1 << 40}, SegmentError, "bytes of actions there do not lie in"),
        ({"gpu_act_offset": 2}, SegmentError, "gpu_act_offset is 2, not aligned"),
        ({"gpu_act_generation": 7}, SegmentError, "gpu_act_generation is 7, in the middle of a change"),
        ({"gpu_act_handle": b"\xff" * 64}, DeviceError, "CUDA_ERROR_INVALID_HANDLE"),
        ({"gpu_act_device_uuid": b"\xab" * 16}, DeviceError, "actions lie on its GPU 0 .*does not see"),
        ({"gpu_events_generation": 7}, SegmentError, "gpu_events_generation is 7, in the middle of a change"),
        ({"gpu_frame_event": b"\xff" * 64}, DeviceError, "cuIpcOpenEventHandle failed"),
        ({"gpu_client_event": b"\xff" * 64}, DeviceError, "cuIpcOpenEventHandle failed"),
        ({"gpu_events_device_uuid": b"\xab" * 16}, DeviceError, "events are on its GPU 0 .*does not see"),
    ],
)
def test_an_offer_that_does_not_fit_is_refused_and_nothing_stays_open(
    driver: FakeDriver, torch: FakeTorch, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    actions = torch.on_gpu(np.zeros((NUM_ENVS, 2), np.float32))
    endpoint = f"shm://{unique_name()}"
    with api.serve(LateEngine(driver), endpoint), api.make(endpoint=endpoint) as env:
        env.reset()
        events = len(driver.open_events)
        for name, value in changes.items():
            header.put(mapping_of(env), name, value)
        of_observations = any(name.startswith(("gpu_obs", "gpu_device")) for name in changes)
        with pytest.raises(error, match=message):
            env.observations_torch("cuda") if of_observations else env.step(actions)
        assert len(driver.open_events) == events
        assert header.get(mapping_of(env), "gpu_client_generation") == 0
    assert driver.open_count == 0


@pytest.fixture
def env(driver: FakeDriver) -> Generator[VectorEnv]:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=NUM_ENVS) as plain, connect(plain) as made:
        yield made


def test_an_engine_that_knows_only_the_seeds_fields_is_understood(env: VectorEnv, driver: FakeDriver) -> None:
    expected = env.observations_torch("cpu").numpy()
    memory = driver.allocate(OBS_BYTES)
    memory[:] = np.frombuffer(expected.tobytes(), np.uint8)
    handle = driver.export(memory.ctypes.data).handle
    for name, value in {"gpu_available": 1, "gpu_obs_mode": 1, "gpu_obs_handle": handle, "gpu_device_id": 0}.items():
        header.put(mapping_of(env), name, value)
    np.testing.assert_array_equal(env.observations_torch("cuda").cpu().numpy(), expected)
    assert driver.opened == [memory.ctypes.data]


def test_memory_shared_by_vulkan_is_left_alone_and_the_segment_is_copied(env: VectorEnv, driver: FakeDriver) -> None:
    memory = driver.export(driver.allocate(OBS_BYTES).ctypes.data)
    device_offer.write_offer(mapping_of(env), OBSERVATIONS, memory, OBS_BYTES)
    header.put(mapping_of(env), "gpu_obs_mode", 2)
    expected = env.observations_torch("cpu").numpy()
    tensor = env.observations_torch("cuda")
    env.step(np.full((NUM_ENVS, 2), 0.3, np.float32))
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert driver.opened == []


# -- the engine's end, and the process's


def test_what_is_published_must_be_the_observations(driver: FakeDriver, engine: LateEngine, serving: Serving) -> None:
    with pytest.raises(DeviceError, match=f"12 bytes .* the observations have {engine.shown.nbytes}"):
        engine.observations.publish(engine.shown.ctypes.data, 12)


def test_an_engine_whose_memory_cannot_be_shared_does_not_start_and_leaves_nothing(
    driver: FakeDriver, engine: LateEngine
) -> None:
    driver.fails["export"] = "CUDA_ERROR_INVALID_VALUE (memory of a pool)"
    name = unique_name()
    with pytest.raises(DeviceError, match="memory of a pool"):
        api.serve(engine, f"shm://{name}")
    assert not [path for path in os.listdir("/dev/shm") if name in path]


def test_a_driver_that_fails_to_close_is_logged_and_closing_goes_on(
    serving: Serving, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    env = connect(serving)
    env.observations_torch("cuda")
    driver.fails["close"] = "CUDA_ERROR_UNKNOWN"
    with caplog.at_level(logging.WARNING):
        env.close()
    assert "was not closed" in caplog.text


# -- the engine dies; work of a process that died never ends in the fake: whoever waits for it raises NeverEnds


class DyingEngine:
    """A toy in a process of its own, and what it would offer if it computed on a GPU.

    frame: the number of the event behind its work. stream: the work itself, which ends only if it is waited for alive.
    """

    def __init__(self, driver: FakeDriver, **options: Any) -> None:
        self._driver = driver
        self._process = EngineProcess("toy", [f"shm://{unique_name()}"], num_envs=NUM_ENVS, options=options)
        self.env = api.make(endpoint=str(self._process.endpoints[0]))
        self.env.reset(seed=1)
        spec, self._mapping = self.env.batch_spec, mapping_of(self.env)
        for of in (OBSERVATIONS, ACTIONS):
            size = device_offer.array_bytes(spec, of)
            memory = driver.export(driver.allocate(size).ctypes.data)
            device_offer.write_offer(self._mapping, of, memory, size)
        frame, client = driver.make_event(0), driver.make_event(0)
        device = driver.devices()[0]
        offer = EventOffer(frame.handle, client.handle, device.ordinal, device.uuid)
        device_offer.write_events(self._mapping, offer)
        self.stream = FakeStream()
        self._frame = frame.event

    def leave_work_unfinished(self) -> None:
        """Record the frame behind work that never ends."""
        self.stream.append_work(never)
        self._driver.events[self._frame].record(self.stream)

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def stop(self) -> None:
        self.env.close()
        self._process.stop()


@pytest.fixture
def dying(driver: FakeDriver) -> Generator[DyingEngine]:
    made = DyingEngine(driver)
    yield made
    made.stop()


def test_an_engine_that_is_dead_before_its_frame_is_read_leaves_no_wait_in_any_stream(
    dying: DyingEngine, torch: FakeTorch
) -> None:
    dying.leave_work_unfinished()
    dying.kill()
    for use in (dying.env.observations_torch, lambda: dying.env.step(torch.on_gpu(HALF))):
        with pytest.raises(PeerDied):
            use()
    torch.streams[0].synchronize()  # does not raise NeverEnds


def test_an_engine_that_dies_behind_a_wait_is_told_and_closing_waits_for_no_device(
    dying: DyingEngine, driver: FakeDriver, torch: FakeTorch, caplog: pytest.LogCaptureFixture
) -> None:
    dying.leave_work_unfinished()
    dying.env.observations_torch()
    dying.kill()
    with pytest.raises(PeerDied):
        dying.env.step(torch.on_gpu(HALF))
    opened = driver.open_count
    assert opened == 1
    with caplog.at_level(logging.WARNING):
        dying.env.close()
    assert "stays open" in caplog.text
    assert driver.open_count == opened  # closing device memory waits for the device
    with pytest.raises(NeverEnds):
        torch.streams[0].synchronize()  # what no driver documents, and this one does


def test_an_engine_that_dies_with_its_work_done_leaves_nothing_open(
    dying: DyingEngine, driver: FakeDriver, torch: FakeTorch
) -> None:
    dying.env.observations_torch()
    dying.env.step(torch.on_gpu(HALF))
    dying.kill()
    with pytest.raises(PeerDied):
        dying.env.step(torch.on_gpu(HALF))
    dying.env.close()
    assert driver.open_count == 0
    assert len(driver.open_events) == 2  # those that this test made in the engine's name


def test_an_engine_that_dies_in_the_step_whose_actions_lie_on_the_device_is_told(
    driver: FakeDriver, torch: FakeTorch
) -> None:
    engine = DyingEngine(driver, exit_at=3)
    try:
        engine.env.step(torch.on_gpu(HALF))
        with pytest.raises(PeerDied):
            engine.env.step(torch.on_gpu(HALF))
    finally:
        engine.stop()
    assert driver.open_count == 0


# -- the client dies, or closes

_CLIENT = """
import os, signal, sys
from lucky_transport import api
from lucky_transport.shm.segment import device_offer, header
env = api.make(endpoint=sys.argv[1])
env.reset()
mapping = env.transport._segment.mapping
device_offer.mark_open(mapping, device_offer.ACTIONS, device_offer.current_generation(mapping, device_offer.ACTIONS))
if sys.argv[2] == "written":
    header.put(mapping, "gpu_act_seq", header.get(mapping, "action_seq") + 1)
print("ready", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("phase", ["recorded", "written"])
def test_a_client_that_dies_before_it_sends_its_actions_holds_up_neither_the_engine_nor_the_next_client(
    serving: Serving, engine: LateEngine, driver: FakeDriver, torch: FakeTorch, phase: str
) -> None:
    command = [sys.executable, "-c", _CLIENT, str(serving.endpoints[0]), phase]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        lost = FakeStream()
        lost.append_work(never)
        driver.events[driver.open_events[1]].record(lost)  # as the client did
        client.communicate("die\n", PATIENCE_S)
    with connect(serving, observations="device") as env:
        env.step(torch.on_gpu(HALF))
        np.testing.assert_array_equal(env.observations_torch().cpu().numpy(), shown_after(HALF))
    assert engine.actions.wait_unused(PATIENCE_S)
    serving.stop()
    assert driver.open_events == []


def test_a_client_that_closes_leaves_no_event_to_the_next(
    serving: Serving, driver: FakeDriver, torch: FakeTorch
) -> None:
    for _ in range(3):
        with connect(serving, observations="device") as env:
            generation = header.get(mapping_of(env), "gpu_events_generation")
            env.step(torch.on_gpu(HALF))
            np.testing.assert_array_equal(env.observations_torch().cpu().numpy(), shown_after(HALF))
            assert header.get(mapping_of(env), "gpu_events_generation") == generation
            assert len(driver.open_events) == 4  # two of each side
    assert len(driver.open_events) <= 2
    serving.stop()
    assert driver.open_events == []
    assert driver.open_count == 0


def test_a_forked_child_closes_nothing(serving: Serving, driver: FakeDriver, torch: FakeTorch) -> None:
    with connect(serving, observations="device") as env:
        env.step(torch.on_gpu(HALF))
        seen = env.observations_torch()

        def closes_nothing() -> bool:
            env.close()
            return (len(driver.closed), len(driver.open_events)) == (0, 4)

        assert in_a_child(closes_nothing)
        np.testing.assert_array_equal(seen.cpu().numpy(), shown_after(HALF))
