"""A signal handler may raise at any moment of an env's call: a reset makes the env usable again, at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from tests.support.interrupted_moments import Interrupted, interrupted_at, interrupted_start
from tests.support.waiting import until

ENVS = 4
ACTIONS = np.zeros((ENVS, 2), np.float32)


@pytest.fixture(scope="module", params=["inproc", "shm"])
def env(request: pytest.FixtureRequest) -> Generator[VectorEnv]:
    options = {"parallel_envs": 3, "episode_steps": 3}
    with api.make("toy", ENVS, transport=request.param, options=options, autoreset_mode="SameStep") as made:
        yield made


def some(env: VectorEnv) -> None:
    env.send(ACTIONS[:3], np.arange(3))


def all_of(env: VectorEnv) -> None:
    env.send(ACTIONS)


@pytest.mark.parametrize(
    ("before", "work"),
    [
        pytest.param(None, some, id="send"),
        pytest.param(all_of, lambda env: env.recv(2), id="recv"),
        pytest.param(None, lambda env: env.step(ACTIONS), id="step"),
        pytest.param(None, lambda env: env.step_async(ACTIONS), id="step_async"),
        pytest.param(lambda env: env.step_async(ACTIONS), lambda env: env.step_wait(), id="step_wait"),
        pytest.param(some, lambda env: env.reset(), id="reset"),
    ],
)
def test_a_reset_follows_an_interrupt_at_any_moment(
    env: VectorEnv, before: Callable[[VectorEnv], Any] | None, work: Callable[[VectorEnv], Any]
) -> None:
    met = 0
    for moment in itertools.count():
        env.reset()
        if before is not None:
            before(env)
        is_interrupted = interrupted_at(moment, lambda: work(env))
        met += is_interrupted and moment > 0
        try:
            env.reset()
            env.send(ACTIONS)
            assert env.recv(ENVS).env_ids.tolist() == list(range(ENVS))
            env.step(ACTIONS)
        except Exception as error:
            pytest.fail(f"after an interrupt at moment {moment}: {error!r}")
        if moment and not is_interrupted:
            break
    assert met, "no moment was met"


def test_an_interrupt_in_the_start_of_the_first_steps_leaves_one_thread_that_holds_the_engine() -> None:
    def holding() -> list[threading.Thread]:
        return [
            thread for thread in threading.enumerate() if thread.name.startswith("env steps") and thread not in others
        ]

    others = [thread for thread in threading.enumerate() if thread.name.startswith("env steps")]
    with api.make("toy", ENVS, transport="inproc", options={"parallel_envs": 3}) as env:
        env.reset()
        with interrupted_start(Interrupted), pytest.raises(Interrupted):
            some(env)
        until(lambda: not holding())
        env.reset()
        for _ in range(3):
            some(env)
            env.recv(3)
        assert len(holding()) == 1
    until(lambda: not holding())
