"""Either side dies while the other's work on the GPU is ordered behind its own: an error soon, and no wait that stays.

The driver is the fake of `tests.support.fake_cuda`. Work of a process that died never ends in it, which is the worst
that a real one may do: whoever waits for it raises NeverEnds. The processes that die are real.
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
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.errors import PeerDied
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import ACTIONS, OBSERVATIONS, EventOffer
from tests.core.test_fork import in_a_child
from tests.plugins.shm.conftest import mapping_of
from tests.support.fake_cuda import FakeDriver, FakeStream, FakeTorch, NeverEnds, never
from tests.support.late_engine import NUM_ENVS, LateEngine, kernel
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("torch", "forked_engines")

ACTIONS_GIVEN = np.full((NUM_ENVS, 2), 0.5, np.float32)


# -- the engine


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
def engine(driver: FakeDriver) -> Generator[DyingEngine]:
    made = DyingEngine(driver)
    yield made
    made.stop()


def test_an_engine_that_is_dead_before_its_frame_is_read_leaves_no_wait_in_any_stream(
    engine: DyingEngine, torch: FakeTorch
) -> None:
    engine.leave_work_unfinished()
    engine.kill()
    for use in (engine.env.observations_torch, lambda: engine.env.step(torch.on_gpu(ACTIONS_GIVEN))):
        with pytest.raises(PeerDied):
            use()
    torch.streams[0].synchronize()  # does not raise NeverEnds


def test_an_engine_that_dies_behind_a_wait_is_told_and_closing_waits_for_no_device(
    engine: DyingEngine, driver: FakeDriver, torch: FakeTorch, caplog: pytest.LogCaptureFixture
) -> None:
    engine.leave_work_unfinished()
    engine.env.observations_torch()
    engine.kill()
    with pytest.raises(PeerDied):
        engine.env.step(torch.on_gpu(ACTIONS_GIVEN))
    opened = driver.open_count
    assert opened == 1
    with caplog.at_level(logging.WARNING):
        engine.env.close()
    assert "stays open" in caplog.text
    assert driver.open_count == opened  # closing device memory waits for the device
    with pytest.raises(NeverEnds):
        torch.streams[0].synchronize()  # what no driver documents, and this one does


def test_an_engine_that_dies_with_its_work_done_leaves_nothing_open(
    engine: DyingEngine, driver: FakeDriver, torch: FakeTorch
) -> None:
    engine.env.observations_torch()
    engine.env.step(torch.on_gpu(ACTIONS_GIVEN))
    engine.kill()
    with pytest.raises(PeerDied):
        engine.env.step(torch.on_gpu(ACTIONS_GIVEN))
    engine.env.close()
    assert driver.open_count == 0
    assert len(driver.open_events) == 2  # those that this test made in the engine's name


def test_an_engine_that_dies_in_the_step_whose_actions_lie_on_the_device_is_told(
    driver: FakeDriver, torch: FakeTorch
) -> None:
    engine = DyingEngine(driver, exit_at=3)
    try:
        engine.env.step(torch.on_gpu(ACTIONS_GIVEN))
        with pytest.raises(PeerDied):
            engine.env.step(torch.on_gpu(ACTIONS_GIVEN))
    finally:
        engine.stop()
    assert driver.open_count == 0


# -- the client

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
    driver: FakeDriver, torch: FakeTorch, phase: str
) -> None:
    engine = LateEngine(driver)
    with api.serve(engine, f"shm://{unique_name()}") as serving:
        endpoint = str(serving.endpoints[0])
        command = [sys.executable, "-c", _CLIENT, endpoint, phase]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
            lost = FakeStream()
            lost.append_work(never)
            driver.events[driver.open_events[1]].record(lost)  # as the client did
            client.communicate("die\n", PATIENCE_S)
        with api.make(endpoint=endpoint, observations="device") as env:
            env.reset()
            env.step(torch.on_gpu(ACTIONS_GIVEN))
            np.testing.assert_array_equal(env.observations_torch().cpu().numpy(), after_one_step())
        assert engine.actions.wait_unused(PATIENCE_S)
    assert driver.open_events == []


def test_a_client_that_closes_leaves_no_event_to_the_next(driver: FakeDriver, torch: FakeTorch) -> None:
    engine = LateEngine(driver)
    with api.serve(engine, f"shm://{unique_name()}") as serving:
        for _ in range(3):
            with api.make(endpoint=str(serving.endpoints[0]), observations="device") as env:
                env.reset()
                generation = header.get(mapping_of(env), "gpu_events_generation")
                env.step(torch.on_gpu(ACTIONS_GIVEN))
                np.testing.assert_array_equal(env.observations_torch().cpu().numpy(), after_one_step())
                assert header.get(mapping_of(env), "gpu_events_generation") == generation
                assert len(driver.open_events) == 4  # two of each side
        assert len(driver.open_events) <= 2
    assert driver.open_events == []
    assert driver.open_count == 0


def test_a_forked_child_closes_nothing(driver: FakeDriver, torch: FakeTorch) -> None:
    engine = LateEngine(driver)
    with (
        api.serve(engine, f"shm://{unique_name()}") as serving,
        api.make(endpoint=str(serving.endpoints[0]), observations="device") as env,
    ):
        env.reset()
        env.step(torch.on_gpu(ACTIONS_GIVEN))
        seen = env.observations_torch()

        def closes_nothing() -> bool:
            env.close()
            return (len(driver.closed), len(driver.open_events)) == (0, 4)

        assert in_a_child(closes_nothing)
        np.testing.assert_array_equal(seen.cpu().numpy(), after_one_step())


def after_one_step() -> NDArray[Any]:
    shown = np.ones((NUM_ENVS, 4), np.float32)
    kernel(shown, ACTIONS_GIVEN, np.zeros(NUM_ENVS, np.uint8))
    return shown
