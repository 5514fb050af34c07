"""Steps in two halves: `step_async` and `step_wait` of all envs, `send` and `recv` of envs on their own."""

import re
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from lucky_transport import api
from lucky_transport.env.autoreset import NeedsReset
from lucky_transport.env.vector_env import EnvBatch, VectorEnv
from lucky_transport.errors import (
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    SpecError,
    SpecTypeError,
    Unimplemented,
)
from lucky_transport.testing.async_envs_contract import GatedEngine
from tests.support.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("forked_engines")

ENVS = 4
WAIT_S = 60.0
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (30, ENVS, 2)).astype(np.float32)
OPTIONS = {"parallel_envs": 3, "episode_steps": 4}


@pytest.fixture(scope="module", params=["inproc", "shm"])
def env(request: pytest.FixtureRequest) -> Generator[VectorEnv]:
    """An env that each test resets first."""
    with api.make("toy", ENVS, transport=request.param, options=OPTIONS) as made:
        yield made


def sent(env: VectorEnv, *ids: int) -> None:
    env.send(ACTIONS[0][list(ids)], np.array(ids))


# against a model


# what a batch is


def test_a_batch_has_copies_of_the_promised_dtypes_and_shapes(env: VectorEnv) -> None:
    env.reset(seed=1)
    sent(env, 3, 1)
    found = env.recv(2, WAIT_S)
    assert isinstance(found, EnvBatch)
    shown = [(str(array.dtype), array.shape) for array in found[:5]]
    assert shown == [("int32", (2,)), ("float32", (2, 8)), ("float32", (2,)), ("bool", (2,)), ("bool", (2,))]
    assert found.env_ids.tolist() == [1, 3]
    assert found.info["reward_terms/alive"].shape == (2,)
    kept = found.observations.copy()
    env.step(ACTIONS[1])
    assert found.observations.tobytes() == kept.tobytes()
    assert found.observations.flags.writeable


def test_a_reward_function_and_strict_validation_see_the_rows_of_the_batch() -> None:
    def doubled(signals: dict[str, Any]) -> Any:
        return 2 * signals["alive"]

    with api.make("toy", ENVS, transport="inproc", options=OPTIONS, reward_fn=doubled, validate="strict") as strict:
        strict.reset(seed=1)
        with pytest.raises(SpecError, match=r"actions are out of bounds: 3.0 at \[1, 0\]"):
            strict.send(np.array([[0, 0], [3, 0]], np.float32), [2, 3])
        sent(strict, 2, 3)
        assert strict.recv(2, WAIT_S).rewards.tolist() == [2.0, 2.0]


def test_values_out_of_bounds_are_counted(env: VectorEnv) -> None:
    env.reset(seed=1)
    before = env.out_of_bounds
    env.send(np.full((1, 2), 7.0), [0])
    env.recv(1, WAIT_S)
    assert env.out_of_bounds == before + 2


# autoreset


def test_disabled_autoreset_refuses_an_env_that_ended_and_lets_the_others_go_on() -> None:
    with api.make("toy", ENVS, transport="inproc", options=OPTIONS, autoreset_mode="Disabled") as env:
        env.reset(seed=3)
        for _ in range(3):
            sent(env, 1, 2)
            env.recv(2, WAIT_S)
        sent(env, 1, 2)
        assert env.recv(2, WAIT_S).truncated.all()
        with pytest.raises(NeedsReset, match=r"send is not possible: .* \(envs \[1\]\)"):
            sent(env, 0, 1)
        sent(env, 0, 3)
        env.recv(2, WAIT_S)
        with pytest.raises(NeedsReset, match=re.escape("(envs [1, 2])")):
            env.step(ACTIONS[0])
        env.reset(options={"reset_mask": np.array([False, True, True, False])})
        sent(env, 0, 1, 2, 3)
        env.recv(4, WAIT_S)


def test_a_step_resets_the_envs_that_ended_on_their_own() -> None:
    with api.make("toy", ENVS, transport="inproc", options=OPTIONS) as env:
        env.reset(seed=3)
        for _ in range(4):
            sent(env, 2)
            env.recv(1, WAIT_S)
        _, rewards, _, truncated, info = env.step(ACTIONS[0])
        assert (rewards != 0).tolist() == info["_reward_terms"].tolist() == [True, True, False, True]
        assert not truncated.any()
        assert env.autoreset_mode is AutoresetMode.NEXT_STEP


# misuse


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda env: env.recv(3), LocalProtocolError, "recv waits for 3 of 2 envs under way; send more envs first"),
        (lambda env: env.recv(0), SpecError, "recv waits for 0 envs, expected at least 1"),
        (lambda env: sent(env, 0, 2), LocalProtocolError, r"send: envs \[0\] are under way; receive an env before"),
        (lambda env: sent(env, 2, 2), SpecError, "env_ids name env 2 more than once"),
        (lambda env: env.send(ACTIONS[0][:1], [ENVS]), SpecError, "env_ids name env 4, expected ids from 0 to 3"),
        (lambda env: env.send(ACTIONS[0][:1], [0.5]), SpecTypeError, "env_ids have dtype float64, expected integers"),
        (lambda env: env.send(ACTIONS[0], [2]), SpecError, r"actions have shape \(4, 2\), expected \(1, 2\)"),
        (
            lambda env: env.step(ACTIONS[0]),
            LocalProtocolError,
            r"envs that send\(\) began are under way; call recv\(\)",
        ),
        (lambda env: env.step_async(ACTIONS[0]), LocalProtocolError, r"step_async is not possible: envs that send\(\)"),
        (
            lambda env: env.step_wait(),
            LocalProtocolError,
            r"without a step under way; call step_async\(actions\)",
        ),
        (
            lambda env: env.reset(options={"reset_mask": np.array([True, False, False, False])}),
            LocalProtocolError,
            r"a partial reset is not possible: envs that send\(\)",
        ),
    ],
    ids=[
        *("more than were sent", "none", "an env under way", "an env twice", "no such env", "ids of another type"),
        *("too many rows", "a step", "half a step", "the other half", "a partial reset"),
    ],
)
def test_a_wrong_call_is_refused_and_changes_nothing(
    env: VectorEnv, call: Callable[[VectorEnv], object], kind: type[Exception], text: str
) -> None:
    env.reset(seed=1)
    sent(env, 0, 1)
    with pytest.raises(kind, match=text):
        call(env)
    assert env.recv(2, WAIT_S).env_ids.tolist() == [0, 1]


def test_nothing_is_received_before_it_is_sent_or_while_a_step_is_under_way(env: VectorEnv) -> None:
    env.reset(seed=1)
    with pytest.raises(LocalProtocolError, match=r"recv\(\) without an env under way; call send\(actions, env_ids\)"):
        env.recv()
    env.step_async(ACTIONS[0])
    with pytest.raises(LocalProtocolError, match=r"send is not possible: the step that step_async\(\) began"):
        sent(env, 0)
    env.step_wait()


def test_an_env_that_was_never_reset_begins_nothing() -> None:
    with api.make("toy", ENVS, transport="inproc", options=OPTIONS) as env:
        with pytest.raises(NeedsReset, match="send is not possible: the env was never reset"):
            sent(env, 0)
        with pytest.raises(NeedsReset, match="step_async is not possible: the env was never reset"):
            env.step_async(ACTIONS[0])


def test_several_observation_slots_and_single_envs_exclude_each_other() -> None:
    with api.make("toy", ENVS, transport="shm", options=OPTIONS, copy=False, observation_slots=2) as env:
        env.reset(seed=1)
        with pytest.raises(Unimplemented, match="observation_slots=1"):
            sent(env, 0)


# failures


Gated = tuple[VectorEnv, GatedEngine]


@pytest.fixture(params=["inproc", "shm"])
def gated(request: pytest.FixtureRequest) -> Generator[Gated]:
    engine = GatedEngine(ENVS, ENVS)
    with api.serve(engine, f"{request.param}:") as server, api.make(endpoint=str(server.endpoints[0])) as made:
        made.reset(seed=0)
        yield made, engine
        engine.open()


def test_a_wait_ends_at_its_limit_and_loses_nothing(gated: Gated) -> None:
    env, engine = gated
    sent(env, 0, 1, 2)
    engine.gates[1].set()
    with pytest.raises(PeerTimeout, match=r"of 3 envs ended their steps within 0.2 s; nothing is lost: wait again"):
        env.recv(3, 0.2)
    assert env.recv(1, WAIT_S).env_ids.tolist() == [1]
    engine.open()
    assert env.recv(2, WAIT_S).env_ids.tolist() == [0, 2]


def test_an_env_that_fails_makes_a_reset_necessary(gated: Gated) -> None:
    env, engine = gated
    engine.open()
    engine.broken.add(1)
    sent(env, 0, 1, 2)
    with pytest.raises(EngineFailed, match="env 1 is broken on purpose"):
        env.recv(3, WAIT_S)
    for call in (env.recv, lambda: sent(env, 3)):
        with pytest.raises(NeedsReset, match=r"the last step or reset failed.*; call reset\(\)"):
            call()
    engine.broken.clear()
    env.reset(seed=1)
    sent(env, 0, 1, 2, 3)
    env.recv(4, WAIT_S)


@pytest.mark.parametrize("broken", [(), (3,), (0, 3)], ids=["none fails", "one fails", "all fail"])
def test_a_reset_waits_for_the_envs_under_way_and_gives_them_up(gated: Gated, broken: tuple[int, ...]) -> None:
    env, engine = gated
    first, _ = env.reset(seed=5)
    engine.open()
    engine.broken.update(broken)
    sent(env, 0, 3)
    again, _ = env.reset(seed=5)
    assert first.tobytes() == again.tobytes()
    env.step(ACTIONS[0])


def test_an_env_that_was_closed_meanwhile_says_so(gated: Gated) -> None:
    env, engine = gated
    sent(env, 0)
    engine.open()
    env.close()
    with pytest.raises(ClosedError, match="recv: the env is closed"):
        env.recv()
    with pytest.raises(ClosedError, match="send: the env is closed"):
        sent(env, 1)
    with pytest.raises(ClosedError, match="step_wait: the env is closed"):
        env.step_wait()


def equal(one: Any, other: Any) -> bool:
    """True for equal nests of arrays, bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())


class Gate:
    """What an engine's step waits for, and fails at while it is `broken`."""

    def __init__(self) -> None:
        self.opened, self.entered = threading.Event(), threading.Event()
        self.broken = False

    def __call__(self, control: Any) -> None:
        self.entered.set()
        assert self.opened.wait(WAIT_S)
        if self.broken:
            raise RuntimeError("broken on purpose")


@pytest.fixture
def halves() -> Generator[tuple[VectorEnv, Gate]]:
    gate = Gate()
    gate.opened.set()
    engine = ScriptedEngine(2, on_step=gate)
    with api.serve(engine, "shm://") as server, api.make(endpoint=str(server.endpoints[0])) as env:
        env.reset(seed=0)
        gate.entered.clear()
        yield env, gate
        gate.opened.set()


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


def test_the_program_goes_on_while_the_engine_steps(halves: tuple[VectorEnv, Gate]) -> None:
    env, gate = halves
    gate.opened.clear()
    actions = np.full(env.batch_spec.action_shape, 0.5, np.float32)
    env.step_async(actions)
    assert gate.entered.wait(WAIT_S)
    actions[:] = np.nan  # the engine has its own by now
    gate.opened.set()
    assert np.isfinite(env.step_wait()[0]).all()


def test_nothing_but_waiting_and_resetting_follows_a_step_under_way(halves: tuple[VectorEnv, Gate]) -> None:
    env, _ = halves
    actions = actions_of(env)
    env.step_async(actions)
    for begin in (env.step, env.step_async):
        with pytest.raises(LocalProtocolError, match=r"is under way; call step_wait\(\) first"):
            begin(actions)
    with pytest.raises(LocalProtocolError, match="a partial reset is not possible: the step that"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.step_wait()
    env.step(actions)


def test_an_engine_that_fails_is_reported_where_the_step_ends(halves: tuple[VectorEnv, Gate]) -> None:
    env, gate = halves
    gate.broken = True
    env.step_async(actions_of(env))
    with pytest.raises(EngineFailed, match="broken on purpose"):
        env.step_wait()
    with pytest.raises(LocalProtocolError, match=r"the last step or reset failed, .* call reset\(\)"):
        env.step_async(actions_of(env))
    gate.broken = False
    env.reset()
    env.step(actions_of(env))
