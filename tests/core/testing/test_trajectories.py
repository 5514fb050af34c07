"""Trajectories: what is recorded, and that the first difference is really the first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.testing.trajectories import (
    TrajectoryDifference,
    first_difference,
    random_moves,
    record_env,
    record_frames,
)


def _client(num_envs: int = 3) -> InprocTransport:
    return InprocTransport(Host(ToyEngine(num_envs, episode_steps=7)))


FRAMES = record_frames(_client(), random_moves(_client().spec, 50, seed=1))


@given(
    step=st.integers(0, 49),
    env=st.integers(0, 2),
    field=st.sampled_from(["observations", "rewards", "terminated", "signals"]),
    later=st.integers(0, 49),
)
def test_the_first_difference_is_found_by_step_env_and_field(step: int, env: int, field: str, later: int) -> None:
    left, right = dict(FRAMES), {name: array.copy() for name, array in FRAMES.items()}
    for at in (step, max(step, later)):
        row = right[field][at, env : env + 1]
        row[...] = ~row if row.dtype == np.bool_ else row + 1
    found = first_difference(left, right)
    if step == max(step, later) and field == "terminated":
        assert found is None  # flipped twice
        return
    assert found is not None
    assert (found.step, found.env, found.field) == (step, env, field)
    assert found.left != found.right


def test_bits_are_compared_and_not_numbers() -> None:
    zero, minus = ({"x": np.array([[value]], np.float32)} for value in (0.0, -0.0))
    found = first_difference(zero, minus)
    assert found == TrajectoryDifference(0, 0, "x", (), 0.0, -0.0)
    nan = {"x": np.array([[np.nan]], np.float32)}
    assert first_difference(nan, {"x": nan["x"].copy()}) is None


def test_a_difference_reads_as_a_sentence() -> None:
    found = TrajectoryDifference(4, 1, "observations", (2,), 0.5, 0.25)
    assert str(found) == "observations of env 1 at [2] in step 4: 0.5 against 0.25"


def test_parts_are_fields_of_their_own_and_a_difference_names_part_and_element() -> None:
    clients = [InprocTransport(Host(api.make_engine("toy:composite", 3, episode_steps=7))) for _ in range(2)]
    moves = random_moves(clients[0].spec, 20, seed=1)
    left, right = (record_frames(client, moves) for client in clients)
    assert "observations" not in left
    assert left['observation["camera"]["left"]'].shape == (20, 3, 4, 6, 3)
    assert left['info["clock"]["ticks"]'].dtype == np.int64
    assert first_difference(left, right) is None
    right['observation["arms"][0]'][4, 1, 1] = 0.25
    before = left['observation["arms"][0]'][4, 1, 1].item()
    found = str(first_difference(left, right))
    assert found == f'observation["arms"][0][1] of env 1 in step 4: {before} against 0.25'


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x is float32 \(1, 2\) here and float64 \(1, 2\) there"):
        first_difference({"x": np.zeros((1, 2), np.float32)}, {"x": np.zeros((1, 2))})
    with pytest.raises(ValueError, match=r"the fields \['x'\] and \['y'\]"):
        first_difference({"x": np.zeros((1, 1))}, {"y": np.zeros((1, 1))})


def test_ended_envs_can_be_reset_by_the_move_that_would_step_them() -> None:
    spec = _client().spec
    reset, held = (np.full(3, code, np.uint8) for code in (RESET, HOLD))
    moves = [(np.zeros(spec.action_shape), control) for control in (reset, *[None] * 7, held, None, None)]
    frames = record_frames(_client(), moves, reset_ended=True)
    assert np.flatnonzero(frames["truncated"].all(axis=1)).tolist() == [7, 8]
    assert frames["rewards"].all(axis=1).tolist() == [False, *[True] * 8, False, True]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_envs_trajectory_has_its_reset_in_row_zero_and_its_terms_in_columns(mode: str) -> None:
    with api.make("toy", 2, transport="inproc", autoreset_mode=mode, options={"episode_steps": 3}) as env:
        found = record_env(env, 10, seed=1)
        start = env.reset(seed=1)[0]
    assert found["observations"].shape == (11, 2, 8)
    assert found["observations"][0].tobytes() == start.tobytes()
    assert found["truncated"].any()
    assert found["reward_terms.alive"][1:3].all()
    assert found["final_obs"].any() == (mode == "SameStep")
    assert ("after_reset" in found) == (mode == "Disabled")
