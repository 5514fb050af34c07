"""The example engine of each kit steps, answers and ends as the same engine in Python does."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import Busy, ClosedError, PeerDied
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import SetSeedsRequest, SetSeedsResponse
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.segment.segment_files import remove_stale
from lucky_transport.transport import Transport
from tests.support.kit_engine import KitEngine
from tests.support.resources import voluntary_switches
from tests.support.waiting import PATIENCE_S, until_none_left

NUM_ENVS, MAX_TICKS = 8, 25
ENGINE, REST = (NUM_ENVS, MAX_TICKS), np.zeros((NUM_ENVS, 1), np.float32)
SHM = Path("/dev/shm")

Start = Callable[[], KitEngine]


@pytest.fixture
def start(pendulum: list[str]) -> Iterator[Start]:
    """Start engines that a test may end; all of them have one name."""
    name, started = unique_name(), list[KitEngine]()

    def start_one() -> KitEngine:
        started.append(KitEngine(pendulum, name, NUM_ENVS, MAX_TICKS))
        return started[-1]

    yield start_one
    for one in started:
        one.close()
    remove_stale()
    until_none_left(lambda: list(SHM.glob(f"{name}*")))


def in_python() -> Transport:
    """Return the same engine in this process."""
    return InprocTransport(Host(PendulumEngine(NUM_ENVS, max_ticks=MAX_TICKS)))


def same(one: Any, other: Any) -> bool:
    """True for the same bits, whatever holds them."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


# lock-step


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_it_steps_as_the_engine_in_python_does_bit_for_bit(engine: KitEngine, mode: str) -> None:
    random = np.random.default_rng(0)
    actual, expected = engine.connect(), in_python()
    assert actual.spec == expected.spec
    with VectorEnv(actual, autoreset_mode=mode) as ours, VectorEnv(expected, autoreset_mode=mode) as theirs:
        assert same(ours.reset(seed=5), theirs.reset(seed=5))
        for _ in range(3 * MAX_TICKS):
            actions = random.uniform(-3, 3, (NUM_ENVS, 1)).astype(np.float32)
            assert same(ours.step(actions), theirs.step(actions))


def test_it_does_with_control_bytes_what_the_engine_in_python_does(engine: KitEngine) -> None:
    random = np.random.default_rng(1)
    with engine.connect() as actual, in_python() as expected:
        for client in (actual, expected):
            seeds = SetSeedsRequest([7 * env for env in range(NUM_ENVS)])
            assert client.call(method("BatchService/SetSeeds"), seeds) == SetSeedsResponse(True)
            client.step(REST, np.full(NUM_ENVS, RESET, np.uint8))
        for _ in range(2 * MAX_TICKS):
            actions = random.uniform(-3, 3, (NUM_ENVS, 1)).astype(np.float32)
            control = random.choice([0, 0, RESET, HOLD, RESET | HOLD], NUM_ENVS).astype(np.uint8)
            one, other = actual.step(actions, control), expected.step(actions, control)
            for array in ("observations", "rewards", "terminated", "truncated", "signals"):
                assert same(getattr(one, array), getattr(other, array)), array


def test_the_next_client_finds_it_free_and_a_second_one_may_not_step(engine: KitEngine) -> None:
    for _ in range(3):
        with engine.connect() as client:
            client.step(REST)
            with pytest.raises(Busy, match="has a client already"):
                engine.connect(connect_timeout_s=0.1)


def test_clients_that_come_and_leave_at_once_harm_nothing(engine: KitEngine) -> None:
    for _ in range(30):
        engine.connect().close()
    with engine.connect() as client:
        client.step(REST)


def test_without_a_client_each_of_its_threads_wakes_once_a_second_at_most(engine: KitEngine) -> None:
    with engine.connect() as client:
        client.step(REST)
    time.sleep(0.5)  # what the client leaves to be done
    before = {thread: voluntary_switches(int(thread)) for thread in os.listdir(f"/proc/{engine.process.pid}/task")}
    time.sleep(3)
    found = {thread: voluntary_switches(int(thread)) - count for thread, count in before.items()}
    assert max(found.values()) <= 4, found


# how it ends


def test_one_that_is_killed_is_noticed_and_the_next_one_takes_its_segment_over(start: Start) -> None:
    first = start()
    client = first.connect()
    client.step(REST)
    first.signal(signal.SIGKILL)
    with pytest.raises(PeerDied, match="ended"):
        client.step(REST)
    second = start()
    second.wait()  # a client that closes removes what no engine holds
    client.close()
    with second.connect() as again:
        again.step(REST)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_client_and_leaves_nothing(start: Start, number: signal.Signals) -> None:
    engine = start()
    client = engine.connect()
    client.step(REST)
    assert engine.signal(number) == (0, "")
    assert not list(SHM.glob(f"{engine.name}*"))
    with pytest.raises(ClosedError, match="the engine is closing"):
        client.call(method("BatchService/SetSeeds"), SetSeedsRequest([0] * NUM_ENVS))
    for _ in range(2):
        with pytest.raises(ClosedError, match="the engine closed"):
            client.step(REST)
    client.close()


def test_a_second_engine_of_its_name_is_refused(start: Start) -> None:
    with start().connect():
        second = start()
        _, errors = second.process.communicate(timeout=PATIENCE_S)
        assert second.process.returncode == 1
        assert "Busy: segment" in errors
