"""Tests of `TransportContract`: envs that are stepped on their own take the course that they take together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, EngineFailed, PeerTimeout, Unimplemented
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, TransportSuite, check_equal, every, outcome, zeros
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Transport

_ENVS = 5

#: Wrong calls of a transport, and the number of envs under way when they are made.
_INVALID_CALLS: Mapping[str, tuple[int, Callable[[Transport], object]]] = {
    "receive before anything is sent": (0, lambda t: t.recv_envs()),
    "receive more than were sent": (2, lambda t: t.recv_envs(3)),
    "receive none": (2, lambda t: t.recv_envs(0)),
    "an env under way": (2, lambda t: t.send_envs(zeros(t)[:2], np.array([2, 1]))),
    "an exchange": (1, lambda t: t.step(zeros(t))),
    "an exchange in halves": (1, lambda t: t.send(zeros(t))),
    "the frame of an exchange": (1, lambda t: t.recv()),
    "an env twice": (0, lambda t: t.send_envs(zeros(t)[:2], np.array([3, 3]))),
    "an env too far": (0, lambda t: t.send_envs(zeros(t)[:2], np.array([0, _ENVS]))),
    "an env before the first": (0, lambda t: t.send_envs(zeros(t)[:1], np.array([-1]))),
    "no env": (0, lambda t: t.send_envs(zeros(t)[:0], np.array([], np.int32))),
    "ids of another type": (0, lambda t: t.send_envs(zeros(t)[:1], np.array([0.0]))),
    "ids in a table": (0, lambda t: t.send_envs(zeros(t)[:1], np.array([[0]]))),
    "a row too few": (0, lambda t: t.send_envs(zeros(t)[:1], np.array([0, 1]))),
    "actions of all envs for one": (0, lambda t: t.send_envs(zeros(t), np.array([0]))),
    "NaN": (0, lambda t: t.send_envs(zeros(t)[:1] + np.nan, np.array([0]))),
    "a hold": (0, lambda t: t.send_envs(zeros(t)[:1], np.array([0]), np.array([2], np.uint8))),
}


class GatedEngine(ToyEngine):
    """A toy whose env i steps only while `gates[i]` is open; `order` has the envs as they began."""

    def __init__(self, num_envs: int, parallel_envs: int) -> None:
        super().__init__(num_envs, parallel_envs=parallel_envs)
        self.gates = [threading.Event() for _ in range(num_envs)]
        self.order: list[int] = []
        self.broken: set[int] = set()

    def open(self) -> None:
        """Let every env step."""
        for gate in self.gates:
            gate.set()

    def step_env(self, env: int, control: int) -> None:
        self.order.append(env)
        assert self.gates[env].wait(PATIENCE_S)
        if env in self.broken:
            raise ArithmeticError(f"env {env} is broken on purpose")
        super().step_env(env, control)


def random_course(env: VectorEnv, actions: NDArray[Any], seed: int) -> list[list[dict[str, Any]]]:
    """Return what each env answers to its actions (steps, num_envs, ...), sent and received in a random order."""
    generator = np.random.default_rng(seed)
    env.reset(seed=seed)
    found: list[list[dict[str, Any]]] = [[] for _ in range(env.num_envs)]
    sent = np.zeros(env.num_envs, np.int64)
    under_way: set[int] = set()
    while any(len(course) < len(actions) for course in found):
        idle = [i for i in range(env.num_envs) if i not in under_way and sent[i] < len(actions)]
        if idle and (not under_way or generator.random() < 0.6):
            ids = generator.permutation(idle)[: generator.integers(1, len(idle) + 1)]
            env.send(actions[sent[ids], ids], ids)
            sent[ids] += 1
            under_way.update(ids.tolist())
        else:
            batch = env.recv(int(generator.integers(1, len(under_way) + 1)))
            under_way.difference_update(batch.env_ids.tolist())
            for at in range(len(batch.env_ids)):
                found[int(batch.env_ids[at])].append(_row(batch[1:], at))
    return found


def _row(result: Any, at: int) -> dict[str, Any]:
    """Return what a step or a batch says of one env, as bytes."""
    observations, rewards, terminated, truncated, info = result
    row: dict[str, Any] = {"observation": observations[at].tobytes(), "reward": rewards[at].tobytes()}
    row |= {"terminated": bool(terminated[at]), "truncated": bool(truncated[at])}
    columns = dict(info)
    if "final_obs" in info and info["_final_obs"][at]:
        columns |= {f"final/{name}": column for name, column in info["final_info"].items()}
        row["final_obs"] = info["final_obs"][at].tobytes()
    return row | {name: column[at].tobytes() for name, column in columns.items() if "_terms" in name}


@needs("async_envs")
class AsyncEnvsContract(TransportSuite):
    """The part of `TransportContract` about envs that are stepped on their own."""

    @needs()
    def test_an_engine_that_steps_envs_together_or_a_transport_that_does_names_what_to_do(self) -> None:
        with self.open_client() as client:
            assert not client.capabilities.async_envs
            with pytest.raises(Unimplemented, match=r"send\(\) and recv\(\) need one that steps .*use step\(\)"):
                client.send_envs(zeros(client))
            client.step(zeros(client))

    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    def test_each_env_takes_the_course_that_it_takes_in_lock_step(self, mode: str) -> None:
        for seed in range(4):
            options = {"episode_steps": 5, "parallel_envs": 3, "delays_s": [0.0, 0.002]}
            with self.open_both("toy", _ENVS, **options) as (client, reference):
                generator = np.random.default_rng(seed)
                actions = np.stack([random_actions(client.spec, generator) for _ in range(12)])
                with VectorEnv(client, autoreset_mode=mode) as env, VectorEnv(reference, autoreset_mode=mode) as whole:
                    found = random_course(env, actions, seed)
                    whole.reset(seed=seed)
                    for step, each in enumerate(actions):
                        expected = whole.step(each)
                        for i in range(_ENVS):
                            assert found[i][step] == _row(expected, i), (seed, step, i)
                    assert any(row["truncated"] for row in found[0])

    def test_exchanges_and_envs_on_their_own_follow_each_other(self) -> None:
        with self.open_both("toy", _ENVS, parallel_envs=2) as (client, reference):
            generator = np.random.default_rng(1)
            control = every(client, RESET)
            for _ in range(6):
                actions = random_actions(client.spec, generator)
                client.send_envs(actions, control=control)
                ids, frame = client.recv_envs(_ENVS, Deadline(PATIENCE_S))
                assert (ids.dtype, ids.tolist()) == (np.int32, list(range(_ENVS)))
                check_equal(frame, reference.step(actions, control))
                check_equal(client.step(actions), reference.step(actions))
                control = every(client, 0)

    @pytest.mark.parametrize("name", _INVALID_CALLS)
    def test_a_wrong_call_gives_the_references_error_and_changes_nothing(self, name: str) -> None:
        under_way, call = _INVALID_CALLS[name]
        with self.open_both("toy", _ENVS, parallel_envs=2) as (client, reference):
            for each in (client, reference):
                each.step(zeros(each), every(each, RESET))
                if under_way:
                    each.send_envs(zeros(each)[:under_way], np.arange(under_way))
            self.check_refused(client, reference, call)
            if under_way:
                assert client.recv_envs(under_way, Deadline(PATIENCE_S))[0].tolist() == list(range(under_way))
            client.step(zeros(client))

    def test_an_env_that_is_done_comes_while_others_go_on(self) -> None:
        engine = GatedEngine(_ENVS, _ENVS)
        with self.open_client(engine, _ENVS) as client:
            client.send_envs(zeros(client))
            for env in (3, 0, 4):
                engine.gates[env].set()
                assert client.recv_envs(1, Deadline(PATIENCE_S))[0].tolist() == [env]
            assert client.envs_under_way == 2
            with pytest.raises(PeerTimeout, match=r"0 of 2 envs ended their steps within 0.05 s; nothing is lost"):
                client.recv_envs(2, Deadline(0.05))
            engine.open()
            assert client.recv_envs(2, Deadline(PATIENCE_S))[0].tolist() == [1, 2]

    def test_no_env_waits_while_another_begins_three_times(self) -> None:
        engine = GatedEngine(_ENVS, 1)
        engine.open()
        with self.open_client(engine, _ENVS) as client:
            client.send_envs(zeros(client))
            for _ in range(40):  # what comes first is sent again at once
                ids, _ = client.recv_envs(1, Deadline(PATIENCE_S))
                client.send_envs(zeros(client)[ids], ids)
            client.recv_envs(_ENVS, Deadline(PATIENCE_S))
        for env in range(_ENVS):
            turns = np.flatnonzero(np.array(engine.order) == env)
            for begin, end in pairwise(turns.tolist()):
                assert np.bincount(engine.order[begin + 1 : end], minlength=_ENVS).max() <= 2, engine.order

    def test_an_env_that_fails_is_named_and_the_others_still_come(self) -> None:
        engine = GatedEngine(_ENVS, 2)
        engine.open()
        engine.broken.add(2)
        with self.open_client(engine, _ENVS) as client:
            client.send_envs(zeros(client))
            with pytest.raises(EngineFailed, match="step_env of env 2: ArithmeticError: env 2 is broken on purpose"):
                client.recv_envs(_ENVS, Deadline(PATIENCE_S))
            assert client.recv_envs(_ENVS - 1, Deadline(PATIENCE_S))[0].tolist() == [0, 1, 3, 4]
            engine.broken.clear()
            client.step(zeros(client))

    def test_a_client_that_closes_while_envs_are_under_way_leaves_the_engine_to_the_next(self) -> None:
        engine = GatedEngine(_ENVS, 2)
        with self.serve(engine, _ENVS) as endpoint:
            with self.connect(endpoint) as client:
                client.send_envs(zeros(client))
                engine.open()
            assert outcome(client, lambda t: t.recv_envs()).startswith(ClosedError.__name__)
            with self.connect_when_free(endpoint) as other:
                other.send_envs(zeros(other)[:1], np.array([3]))
                assert other.recv_envs(1, Deadline(PATIENCE_S))[0].tolist() == [3]
