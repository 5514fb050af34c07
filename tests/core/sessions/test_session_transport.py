"""A batch of sessions is an env like any other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.cartpole import CartPoleWorlds
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, LocalProtocolError, SessionEnded, SpecError, Unimplemented
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.sessions import Sessions
from lucky_transport.sessions.transport import SessionTransport
from lucky_transport.testing.suite import every, zeros


@pytest.fixture
def carts() -> Generator[Sessions]:
    sessions = Sessions(CartPoleWorlds(), "cartpole")
    yield sessions
    sessions.close()


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode), ids=lambda mode: mode.name)
def test_it_walks_the_way_of_the_engine_itself(carts: Sessions, mode: gymnasium.vector.AutoresetMode) -> None:
    actions = np.random.default_rng(1).integers(0, 2, (80, 3))
    found, expected = (
        walk(env, actions, mode)
        for env in (
            VectorEnv(SessionTransport(carts, 3), autoreset_mode=mode),
            api.make("cartpole", 3, transport="inproc", autoreset_mode=mode),
        )
    )
    assert found == expected


def walk(env: VectorEnv, actions: NDArray[Any], mode: gymnasium.vector.AutoresetMode) -> list[tuple[bytes, ...]]:
    """Return the bytes of everything that the env answers."""
    with env:
        seen: list[tuple[bytes, ...]] = [(env.reset(seed=5)[0].tobytes(),)]
        for row in actions:
            observations, rewards, terminated, truncated, _ = env.step(row)
            seen.append(tuple(array.tobytes() for array in (observations, rewards, terminated, truncated)))
            ended = terminated | truncated
            if ended.any() and mode is gymnasium.vector.AutoresetMode.DISABLED:
                seen.append((env.reset(options={"reset_mask": ended})[0].tobytes(),))
        return seen


def test_its_sessions_end_with_it(carts: Sessions) -> None:
    batch = SessionTransport(carts, 4)
    batch.step(zeros(batch))
    assert len(carts.ids()) == 4
    batch.close()
    batch.close()
    assert carts.ids() == []
    with pytest.raises(ClosedError):
        batch.step(zeros(batch))


def test_a_step_asks_the_door_once(carts: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[str, int]]] = []

    def advance_all(turns: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> Any:
        asked.append([(turn.session_id, turn.ticks) for turn in turns])
        return Sessions.advance_all(carts, turns, deadline)

    monkeypatch.setattr(carts, "advance_all", advance_all)
    with SessionTransport(carts, 3) as batch:
        batch.step(zeros(batch), np.array([RESET, 0, HOLD], np.uint8))
        first, second, third = carts.ids()
        assert asked == [[(first, 0), (second, 0), (third, 0)], [(second, 1)]]
        batch.step(zeros(batch))
        assert asked[2:] == [[(first, 1), (second, 1), (third, 1)]]


def test_a_session_that_is_lost_fails_the_exchange_and_no_more(carts: Sessions) -> None:
    with SessionTransport(carts, 2) as batch:
        batch.step(zeros(batch))
        carts.find(carts.ids()[1]).destroy()
        with pytest.raises(SessionEnded):
            batch.step(zeros(batch))
        with pytest.raises(LocalProtocolError, match=r"recv\(\) without a send"):
            batch.recv()


def test_it_takes_seeds_and_nothing_else(carts: Sessions) -> None:
    with SessionTransport(carts, 2) as batch:
        rows = []
        for _ in range(2):
            assert batch.call(method("BatchService/SetSeeds"), SetSeedsRequest([8, 9])).success
            rows.append(batch.step(zeros(batch), every(batch, 1)).observations.copy())
        assert rows[0].tobytes() == rows[1].tobytes()
        refused = batch.call(method("BatchService/SetSeeds"), SetSeedsRequest([8]))
        assert not refused.success
        with pytest.raises(Unimplemented, match="a batch of sessions does not answer"):
            batch.call(method("SceneService/GetSceneInfo"), None)


def test_worlds_that_are_no_rows_are_refused(sessions: Sessions) -> None:
    with pytest.raises(SpecError, match="cannot be rows of a batch"):
        SessionTransport(sessions, 1)
