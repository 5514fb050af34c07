"""A step in two halves: `step_async` begins it, `step_wait` returns what `step` would."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, EngineFailed, LocalProtocolError

WAIT_S = 20.0


def equal(one: Any, other: Any) -> bool:
    """True for equal nests of arrays, bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())


class GatedEngine(ToyEngine):
    """A toy whose steps wait until the gate is open, and fail while `broken`."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.broken = False

    def step(self, control: NDArray[np.uint8] | None) -> None:
        self.entered.set()
        assert self.gate.wait(WAIT_S)
        if self.broken:
            raise RuntimeError("broken on purpose")
        super().step(control)


@pytest.fixture
def gated() -> Generator[tuple[VectorEnv, GatedEngine]]:
    engine = GatedEngine(2)
    engine.gate.set()
    with api.serve(engine, "shm://") as server, api.make(endpoint=str(server.endpoints[0])) as env:
        env.reset(seed=0)
        engine.entered.clear()
        yield env, engine
        engine.gate.set()


def actions_of(env: VectorEnv) -> Any:
    env.action_space.seed(1)
    return env.action_space.sample()


@pytest.mark.parametrize("engine", ["toy", "toy:composite"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("validate", ["pass", "strict"])
def test_both_halves_do_what_a_step_does(engine: str, mode: str, validate: str) -> None:
    options: dict[str, Any] = {"episode_steps": 4} if engine == "toy" else {}
    arguments: dict[str, Any] = {"options": options, "autoreset_mode": mode, "validate": validate}
    with (
        api.make(engine, 3, transport="inproc", **arguments) as whole,
        api.make(engine, 3, transport="inproc", **arguments) as halves,
    ):
        assert equal(whole.reset(seed=5), halves.reset(seed=5))
        for _ in range(12):
            actions = actions_of(whole)
            expected = whole.step(actions)
            halves.step_async(actions)
            assert equal(expected, halves.step_wait())
            ended = expected[2] | expected[3]
            if mode == "Disabled" and ended.any():
                options = {"reset_mask": ended}
                assert equal(whole.reset(options=options), halves.reset(options=options))


def test_the_program_goes_on_while_the_engine_steps(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, engine = gated
    engine.gate.clear()
    actions = np.full(env.batch_spec.action_shape, 0.5, np.float32)
    env.step_async(actions)
    assert engine.entered.wait(WAIT_S)
    actions[:] = np.nan  # the engine has its own by now
    engine.gate.set()
    assert np.isfinite(env.step_wait()[0]).all()


def test_nothing_but_waiting_and_resetting_follows_a_step_under_way(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, _ = gated
    actions = actions_of(env)
    env.step_async(actions)
    for begin in (env.step, env.step_async):
        with pytest.raises(LocalProtocolError, match=r"is under way; call step_wait\(\) first"):
            begin(actions)
    with pytest.raises(LocalProtocolError, match="a partial reset is not possible: the step that"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.step_wait()
    env.step(actions)


def test_there_is_nothing_to_wait_for_without_a_step(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, _ = gated
    with pytest.raises(LocalProtocolError, match=r"without a step under way; call step_async\(actions\) first"):
        env.step_wait()
    env.step(actions_of(env))


def test_a_step_of_an_env_that_was_never_reset_is_refused() -> None:
    with (
        api.make("toy", transport="inproc") as env,
        pytest.raises(LocalProtocolError, match="step_async is not possible: the env was never reset"),
    ):
        env.step_async(actions_of(env))


def test_a_reset_gives_up_the_step_under_way(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, _ = gated
    first, _ = env.reset(seed=3)
    env.step_async(actions_of(env))
    again, _ = env.reset(seed=3)
    assert equal(first, again)
    env.step(actions_of(env))


def test_refused_actions_begin_no_step(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, _ = gated
    with pytest.raises(ValueError, match="not finite"):
        env.step_async(np.full(env.batch_spec.action_shape, np.nan, np.float32))
    env.step(actions_of(env))


def test_an_engine_that_fails_is_reported_where_the_step_ends(gated: tuple[VectorEnv, GatedEngine]) -> None:
    env, engine = gated
    engine.broken = True
    env.step_async(actions_of(env))
    with pytest.raises(EngineFailed, match="broken on purpose"):
        env.step_wait()
    with pytest.raises(LocalProtocolError, match=r"the last step or reset failed, .* call reset\(\)"):
        env.step_async(actions_of(env))
    engine.broken = False
    env.reset()
    env.step(actions_of(env))


def test_a_step_whose_waiting_was_interrupted_is_given_up_by_a_reset(
    gated: tuple[VectorEnv, GatedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    env, _ = gated
    env.step_async(actions_of(env))

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(env.transport, "recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.step_wait()
    env.reset()
    env.step(actions_of(env))


def test_an_env_that_was_closed_meanwhile_says_so() -> None:
    env = api.make("toy", transport="inproc")
    env.reset()
    env.step_async(actions_of(env))
    env.close()
    with pytest.raises(ClosedError, match="step_wait: the env is closed"):
        env.step_wait()
