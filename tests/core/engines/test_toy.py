"""The toy engine keeps the contract, and its knobs do what their names say."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lucky_transport.api import make_engine
from lucky_transport.engine import RESET, Buffers, Engine
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest, SimulationContract
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.dial import DialEngine
from tests.support.waiting import PATIENCE_S

_PREFIX = "/lucky_transport.v1.BatchService/"


class TestToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2)


class TestToyWithResetTicks(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2, reset_ticks=1)


class TestToyWithoutHold(EngineContract):
    hold = False

    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, hold=False)


class TestCompositeToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("toy:composite", num_envs, episode_steps=25)


class TestDial(EngineContract):
    random_start = False
    seeds = False

    def make_engine(self, num_envs: int) -> Engine:
        return DialEngine(num_envs)


def _bound(engine: Engine) -> Buffers:
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    return buffers


def _reset(engine: Engine) -> None:
    engine.step(np.full(engine.spec.num_envs, RESET, np.uint8))


def test_an_episode_is_truncated_after_its_steps() -> None:
    engine = ToyEngine(2, episode_steps=3)
    buffers = _bound(engine)
    _reset(engine)
    truncated: list[int] = []
    for _ in range(3):
        engine.step(None)
        truncated.append(int(buffers.truncated[0]))
    assert truncated == [0, 0, 1]


def test_an_episode_terminates_when_it_leaves_the_middle() -> None:
    engine = ToyEngine(2)
    buffers = _bound(engine)
    _reset(engine)
    buffers.actions[0] = 1.0
    steps = 0
    while not buffers.terminated.any():
        engine.step(None)
        steps += 1
    assert buffers.terminated.tolist() == [1, 0]
    assert abs(buffers.observations[0, 0]) > 0.5
    assert 1 < steps < 100


def test_an_idle_engine_touches_nothing() -> None:
    engine = make_engine("toy:idle", 2)
    buffers = _bound(engine)
    engine.step(None)
    _reset(engine)
    assert not buffers.observations.any()
    assert not buffers.signals.any()


def test_a_copying_engine_copies_its_frame_with_the_number_of_the_step_at_both_ends() -> None:
    engine = make_engine("toy:copy", 2)
    buffers = _bound(engine)
    for number in (1, 2, 3):
        engine.step(None)
        values = buffers.observations.reshape(-1)
        assert values[0] == values[-1] == number
        assert (values[1:-1] == 0.5).all()


def test_noise_comes_from_the_randomization_and_from_options() -> None:
    def spread(request: SetResetOptionsRequest) -> float:
        engine = ToyEngine(64)
        buffers = _bound(engine)
        assert engine.services[_PREFIX + "SetResetOptions"](request).success
        _reset(engine)
        start = buffers.observations.copy()
        engine.step(None)
        return float(np.abs(buffers.observations - start * np.float32(0.9)).max())

    quiet = spread(SetResetOptionsRequest(None, '{"noise": 0}'))
    loud = spread(SetResetOptionsRequest(SimulationContract(joint_position_noise=0.5)))
    assert quiet < 1e-6 < loud


def test_seeds_of_another_number_are_refused() -> None:
    answer = ToyEngine(3).services[_PREFIX + "SetSeeds"](SetSeedsRequest([1, 2]))
    assert (answer.success, answer.message) == (False, "2 seeds for 3 envs: expected one per env")


def test_a_mask_seeds_only_its_envs() -> None:
    engines = [ToyEngine(2), ToyEngine(2)]
    for engine, seeds, mask in zip(engines, ([7, 8], [7, 0]), (b"", b"\x01\x00"), strict=True):
        assert engine.services[_PREFIX + "SetSeeds"](SetSeedsRequest(seeds, mask)).success
    starts = []
    for engine in engines:
        buffers = _bound(engine)
        _reset(engine)
        starts.append(buffers.observations.copy())
    assert (starts[0][0] == starts[1][0]).all()
    assert (starts[0][1] != starts[1][1]).any()


def test_an_unseedable_engine_offers_no_seeds() -> None:
    assert _PREFIX + "SetSeeds" not in ToyEngine(1, seedable=False).services


def test_it_fails_at_the_step_it_was_told_to() -> None:
    engine = ToyEngine(1, fail_at=2)
    _bound(engine)
    engine.step(None)
    with pytest.raises(ArithmeticError, match="fail at step 2"):
        engine.step(None)


def test_it_leaves_its_process_at_the_step_it_was_told_to() -> None:
    program = (
        "from lucky_transport.engines.toy import ToyEngine; from lucky_transport.engine import Buffers\n"
        "engine = ToyEngine(1, exit_at=2); engine.bind(Buffers.allocate(engine.spec))\n"
        "engine.step(None); print('one', flush=True); engine.step(None); print('two', flush=True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (3, "one\n")


@pytest.mark.parametrize("options", [{"obs_size": 0}, {"act_size": 0}, {"num_envs": 0}])
def test_empty_sizes_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SpecError, match="at least 1"):
        ToyEngine(**options)  # pyright: ignore[reportArgumentType]


def test_unknown_options_and_variants_are_refused_by_name() -> None:
    for variant in ("toy", "toy:idle", "toy:composite"):
        with pytest.raises(ConfigError, match=r"no option 'obs_szie'; did you mean 'obs_size'\? options: .*act_size, "):
            make_engine(variant, obs_szie=3)
    with pytest.raises(UnknownName, match=r"no variant 'idel'; did you mean 'toy:idle'\? use toy or toy:idle or "):
        make_engine("toy:idel")
