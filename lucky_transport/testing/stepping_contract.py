"""Tests of `TransportContract`: frames, moves and actions are the same as over `inproc`; and an engine for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite, every, frame_arrays, zeros
from lucky_transport.testing.trajectories import (
    first_difference,
    random_actions,
    random_moves,
    record_frames,
)

_LAST_NOTCH = 3
_EPISODE_STEPS = 12


class DialEngine(Engine):
    """An engine whose arrays are not float32: whatever assumes they are fails on it.

    Each env is a dial. Action 0 turns it back by a notch, 1 leaves it, 2 turns it on. An episode terminates at the
    third notch either way and is truncated after 12 steps. Discrete(3) actions; observations uint8 (2, 2): notches
    back, notches on, step, 255.
    """

    def __init__(self, num_envs: int = 1) -> None:
        self.spec = BatchSpec(
            engine="dial",
            num_envs=num_envs,
            observation=ArraySpec("uint8", (2, 2)),
            action=ArraySpec("int64", (), 0, 2, n=3),
            reward_terms=("turned",),
            termination_terms=("at_the_end", "time_out"),
            timeout_terms=("time_out",),
        )
        self._notch = np.zeros(num_envs, np.int64)
        self._ticks = np.zeros(num_envs, np.int64)
        self._buffers: Buffers

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def bind_slot(self, buffers: Buffers) -> bool:
        self._buffers = buffers
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if control is None:
            control = np.zeros(self.spec.num_envs, np.uint8)
        reset, stepped = (control & RESET) != 0, (control & (RESET | HOLD)) == 0
        turn = np.where(stepped, self._buffers.actions - 1, 0)
        self._notch = np.where(reset, 0, self._notch + turn)
        self._ticks = np.where(reset, 0, self._ticks + stepped)
        shown = (control & HOLD) == 0
        out = self._buffers
        out.observations[shown, 0, 0] = np.maximum(-self._notch, 0)[shown]
        out.observations[shown, 0, 1] = np.maximum(self._notch, 0)[shown]
        out.observations[shown, 1, 0] = self._ticks[shown]
        out.observations[shown, 1, 1] = 255
        out.signals[0, shown] = turn[shown]
        out.signals[1, shown] = (np.abs(self._notch) >= _LAST_NOTCH)[shown]
        out.signals[2, shown] = (self._ticks >= _EPISODE_STEPS)[shown]
        out.rewards[shown] = total_reward(out.signals, 1)[shown]
        out.terminated[shown] = out.signals[1, shown]
        out.truncated[shown] = out.signals[2, shown]


class SteppingContract(TransportSuite):
    """The part of `TransportContract` about frames, moves and actions."""

    # what is on offer

    @pytest.mark.parametrize("engine", ["toy", "dial"])
    def test_the_client_gets_the_engines_spec_unchanged(self, engine: str) -> None:
        made = api.make_engine("toy", 3) if engine == "toy" else DialEngine(3)
        with self.open_client(made) as client:
            assert client.spec == made.spec
            assert client.spec.to_json() == made.spec.to_json()

    def test_the_action_array_has_the_specs_dtype_and_shape(self) -> None:
        with self.open_client(num_envs=3, act_size=5) as client:
            assert client.actions.dtype == np.float32
            assert client.actions.shape == (3, 5)

    # what a frame is

    def test_a_frames_arrays_have_the_promised_dtypes_and_shapes(self) -> None:
        with self.open_client(num_envs=3, obs_size=7) as client:
            frame = client.step(zeros(client))
            found = {name: (str(array.dtype), array.shape) for name, array in frame_arrays(frame).items()}
            assert found == {
                "observations": ("float32", (3, 7)),
                "rewards": ("float32", (3,)),
                "terminated": ("uint8", (3,)),
                "truncated": ("uint8", (3,)),
                "signals": ("float32", (4, 3)),
            }

    def test_a_frames_arrays_are_read_only(self) -> None:
        with self.open_client() as client:
            frame = client.step(zeros(client))
            assert not [name for name, array in frame_arrays(frame).items() if array.flags.writeable]

    def test_observations_and_actions_keep_the_engines_own_dtypes(self) -> None:
        with self.open_both(lambda: DialEngine(3), 3) as (client, reference):
            moves = random_moves(client.spec, 60, seed=4, hold=client.capabilities.hold)
            frames = record_frames(client, moves)
            assert frames["observations"].dtype == np.uint8
            assert frames["terminated"].any()
            assert first_difference(frames, record_frames(reference, moves)) is None

    def test_each_exchange_raises_the_frame_number_by_exactly_one(self) -> None:
        with self.open_client() as client:
            numbers = [client.step(zeros(client)).seq for _ in range(50)]
            assert np.diff(numbers).tolist() == [1] * 49

    def test_the_total_reward_is_the_sum_of_its_terms(self) -> None:
        with self.open_client() as client:
            client.step(zeros(client), every(client, RESET))
            generator = np.random.default_rng(0)
            for _ in range(20):
                frame = client.step(random_actions(client.spec, generator))
                assert frame.rewards.any()
                assert frame.rewards.tobytes() == total_reward(frame.signals, 2).tobytes()

    def test_any_ended_is_false_only_when_no_env_ended(self) -> None:
        with self.open_client(episode_steps=3) as client:
            client.step(zeros(client), every(client, RESET))
            endings: list[bool] = []
            for _ in range(6):
                frame = client.step(zeros(client))
                endings.append(frame.any_ended)
                assert frame.any_ended or not (frame.terminated.any() or frame.truncated.any())
            assert True in endings

    # step, reset, hold

    def test_a_reset_env_has_no_outcome(self) -> None:
        with self.open_client(episode_steps=1) as client:
            client.step(zeros(client), every(client, RESET))
            assert client.step(zeros(client)).truncated.all()
            control = every(client, 0)
            control[1] = RESET
            frame = client.step(zeros(client), control)
            assert frame.truncated.tolist() == [1, 0, 1, 1]
            assert (frame.rewards[1], frame.terminated[1]) == (0, 0)
            assert not frame.signals[:, 1].any()
            assert frame.rewards[[0, 2, 3]].all()

    def test_the_action_of_a_reset_env_is_ignored(self) -> None:
        frames: list[bytes] = []
        for value in (-1, 1):
            with self.open_client(seed=5) as client:
                frame = client.step(np.full(client.spec.action_shape, value), every(client, RESET))
                frames.append(frame.observations.tobytes())
        assert frames[0] == frames[1]

    @needs("hold")
    def test_a_held_env_keeps_its_rows_bit_for_bit(self) -> None:
        with self.open_client() as client:
            client.step(zeros(client), every(client, RESET))
            before = {name: array.copy() for name, array in frame_arrays(client.step(zeros(client))).items()}
            control = every(client, 0)
            control[2] = HOLD
            after = frame_arrays(client.step(zeros(client), control))
            for name, array in after.items():
                kept, stepped = (array[:, 2], array[:, 0]) if name == "signals" else (array[2], array[0])
                old = before[name][:, 2] if name == "signals" else before[name][2]
                assert kept.tobytes() == old.tobytes(), name
                if name == "observations":
                    assert stepped.tobytes() != before[name][0].tobytes()

    @pytest.mark.parametrize("options", [{"episode_steps": 7}, {"reset_ticks": 1}], ids=["plain", "reset_ticks"])
    def test_any_sequence_of_moves_gives_the_references_frames(self, options: dict[str, Any]) -> None:
        for seed, num_envs in enumerate((5, 5, 5, 1)):
            with self.open_both("toy", num_envs, **options) as (client, reference):
                moves = random_moves(client.spec, 80, seed, hold=client.capabilities.hold)
                found, expected = record_frames(client, moves), record_frames(reference, moves)
                assert first_difference(found, expected) is None, f"seed {seed}, {num_envs} envs"

    def test_a_vector_env_gives_the_references_trajectory(self) -> None:
        with self.open_both("toy", 5, episode_steps=9, seed=3) as (client, reference):
            self.check_same_episodes(client, reference, "NEXT_STEP", 60)

    @needs("hold")
    @pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
    def test_a_vector_env_gives_the_references_trajectory_in_modes_that_hold_envs(self, mode: str) -> None:
        with self.open_both("toy", 5, episode_steps=9, seed=3) as (client, reference):
            self.check_same_episodes(client, reference, mode, 60)

    # actions

    def test_actions_written_in_place_are_the_actions(self) -> None:
        with self.open_both() as (client, reference):
            generator = np.random.default_rng(0)
            for _ in range(10):
                actions = random_actions(client.spec, generator)
                client.actions[:] = actions
                frame = client.step(client.actions)
                assert frame.observations.tobytes() == reference.step(actions).observations.tobytes()

    def test_real_actions_of_any_layout_are_cast(self) -> None:
        with self.open_both(act_size=3) as (client, reference):
            plain = np.arange(12, dtype=np.float32).reshape(4, 3) % 2
            shaped: dict[str, Any] = {
                "float64": plain.astype(np.float64),
                "int8": plain.astype(np.int8),
                "fortran": np.asfortranarray(plain),
                "strided": np.repeat(plain, 2, axis=1)[:, ::2],
                "list": plain.tolist(),
            }
            for kind, actions in shaped.items():
                found = client.step(actions).observations
                assert found.tobytes() == reference.step(plain).observations.tobytes(), kind

    def test_values_out_of_bounds_are_passed_on_and_counted(self) -> None:
        with self.open_both() as (client, reference):
            actions = zeros(client)
            actions[0, 0], actions[3, 1] = 2.0, -7.5
            for _ in range(2):
                assert client.step(actions).observations.tobytes() == reference.step(actions).observations.tobytes()
            client.step(zeros(client))
            assert client.out_of_bounds == 4
