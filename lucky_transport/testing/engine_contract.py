"""What every engine promises, as tests: inherit `EngineContract` and say how to make one.

Rule 1: an env's trajectory depends on its seed, its actions and its own resets, and on nothing else: not on its
        neighbours, not on the buffers it is bound to, not on how often it was held.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.composite import Part, place
from lucky_transport.composite_observations import observation_fields
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.errors import Unimplemented
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages.batch import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.specs import BatchSpec, total_reward
from lucky_transport.testing.pair import every, zeros
from lucky_transport.testing.trajectories import (
    Move,
    first_difference,
    random_actions,
    random_moves,
    record_frames,
)
from lucky_transport.transport import Transport

__all__ = ["EngineContract"]

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")


class EngineContract:
    """Inherit and write `make_engine`; see `lucky_transport.testing`."""

    #: Exchanges per test; episodes must end within them.
    steps: int = 120
    #: Envs of a batch.
    num_envs: int = 4
    #: False when every episode starts from the same observation.
    random_start: bool = True

    def make_engine(self, num_envs: int) -> Engine:
        """Return a fresh engine of `num_envs` envs; two of them must behave alike. Keep its episodes short."""
        raise NotImplementedError("an EngineContract needs make_engine")

    @contextmanager
    def open_client(self) -> Generator[Transport]:
        """Yield a client of a fresh engine."""
        host = Host(self.make_engine(self.num_envs))
        client = InprocTransport(host)
        try:
            yield client
        finally:
            client.close()
            host.close()

    def record(self, moves: Sequence[Move]) -> dict[str, NDArray[Any]]:
        """Return a fresh engine's answers to `moves`; what an engine does with an env that ended is nobody's business,
        so such an env is reset.
        """
        with self.open_client() as client:
            return record_frames(client, moves, reset_ended=True)

    def moves(self, spec: BatchSpec, seed: int = 0) -> list[Move]:
        """Return random moves that the engine can do."""
        return random_moves(spec, self.steps, seed, hold=spec.hold)

    @pytest.fixture
    def spec(self) -> BatchSpec:
        """The engine's spec."""
        engine = self.make_engine(self.num_envs)
        try:
            return engine.spec
        finally:
            engine.close()

    def require_hold(self, spec: BatchSpec) -> None:
        """Skip the test unless the engine can hold envs."""
        if not spec.hold:
            pytest.skip(f"engine {spec.engine!r} declares no hold")

    def test_the_spec_survives_its_journey(self, spec: BatchSpec) -> None:
        assert BatchSpec.from_json(spec.to_json()) == spec

    def test_the_spec_offers_the_number_of_envs_asked_for(self, spec: BatchSpec) -> None:
        assert spec.num_envs == self.num_envs

    def test_equal_engines_give_equal_frames(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        assert first_difference(self.record(moves), self.record(moves)) is None

    def test_episodes_end_within_this_suite(self, spec: BatchSpec) -> None:
        start, *others = self.moves(spec)  # the first move resets: not every engine steps before that
        frames = self.record([start, *((actions, None) for actions, _ in others)])
        ended = (frames["terminated"] | frames["truncated"]).any()
        assert ended, f"no episode ended in {self.steps} steps: shorten the episodes or raise `steps`"

    def test_neighbours_have_no_influence(self, spec: BatchSpec) -> None:
        """Env 0 moves alike twice, while the others do something else."""
        moves, others = self.moves(spec, 1), self.moves(spec, 2)
        mixed: list[Move] = []
        for (actions, control), (other_actions, other_control) in zip(moves, others, strict=True):
            actions_now = other_actions.copy()
            actions_now[0] = actions[0]
            control_now = np.zeros(spec.num_envs, np.uint8) if other_control is None else other_control.copy()
            control_now[0] = 0 if control is None else control[0]
            mixed.append((actions_now, control_now))
        alone = {name: field[:, :1] for name, field in self.record(moves).items()}
        among_others = {name: field[:, :1] for name, field in self.record(mixed).items()}
        assert first_difference(alone, among_others) is None

    def test_holding_an_env_does_not_change_what_it_does_later(self, spec: BatchSpec) -> None:
        self.require_hold(spec)
        actions = [each for each, _ in self.moves(spec)][: self.steps // 2]
        reset = (actions[0], np.full(spec.num_envs, RESET, np.uint8))
        plain: list[Move] = [reset, *((each, None) for each in actions)]
        held: list[Move] = [reset]
        for each in actions:
            held += [(each, None), (each[::-1], np.full(spec.num_envs, HOLD, np.uint8))]
        expected, found = self.record(plain), self.record(held)
        stepped = {name: np.concatenate([field[:1], field[1::2]]) for name, field in found.items() if name != "seq"}
        again = {name: np.concatenate([field[:1], field[2::2]]) for name, field in found.items() if name != "seq"}
        expected.pop("seq")
        assert first_difference(expected, stepped) is None
        assert first_difference(expected, again) is None

    def test_the_rewards_are_the_sum_of_their_terms(self, spec: BatchSpec) -> None:
        frames = self.record(self.moves(spec))
        for rewards, signals in zip(frames["rewards"], frames["signals"], strict=True):
            assert rewards.tobytes() == total_reward(np.ascontiguousarray(signals.T), len(spec.reward_terms)).tobytes()

    def test_a_reset_env_has_no_outcome(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        frames = self.record(moves)
        for step, (_, control) in enumerate(moves):
            reset = np.zeros(spec.num_envs, np.bool_) if control is None else (control & RESET) != 0
            for name in ("rewards", "terminated", "truncated", "signals"):
                assert not frames[name][step][reset].any(), (name, step)

    def test_the_termination_terms_explain_the_flags(self, spec: BatchSpec) -> None:
        frames = self.record(self.moves(spec))
        terms = frames["signals"][:, :, len(spec.reward_terms) :]
        assert np.isin(terms, (0, 1)).all()
        if spec.termination_terms:
            truncating = np.isin(spec.termination_terms, spec.timeout_terms)
            assert np.array_equal(terms[:, :, ~truncating].any(axis=2), frames["terminated"])
            assert np.array_equal(terms[:, :, truncating].any(axis=2), frames["truncated"])

    def test_the_action_of_a_reset_env_is_ignored(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        other = [(actions.copy(), control) for actions, control in moves]
        generator = np.random.default_rng(9)
        for actions, control in other:
            if control is not None:
                reset = (control & RESET) != 0
                actions[reset] = random_actions(spec, generator)[reset]
        assert first_difference(self.record(moves), self.record(other)) is None

    def test_observations_lie_in_their_space(self, spec: BatchSpec) -> None:
        whole = [Part((), spec.observation)]
        frames = self.record(self.moves(spec))
        for part in (*(spec.observation_parts or whole), *spec.info_parts):
            what = "info" if part in spec.info_parts else "observation"
            name = place(what, part.path) if spec.observation_parts else "observations"
            space, found = part.array.space(), frames[name]
            outside = [at for at in np.ndindex(found.shape[:2]) if not space.contains(np.asarray(found[at]))]
            assert not outside, f"{name} of (step, env) {outside[0]}: {found[outside[0]]} is not in {space}"

    def test_another_driver_finds_the_envs_as_they_are(self, spec: BatchSpec) -> None:
        """Binding to other buffers in between changes nothing, and the old buffers are left alone."""
        moves: list[Move] = [(actions, None) for actions, _ in self.moves(spec)]
        control = np.full(spec.num_envs, RESET, np.uint8)
        moves[0] = (moves[0][0], control)
        expected = self.record(moves)
        engine = self.make_engine(self.num_envs)
        try:
            for step, (actions, _) in enumerate(moves):
                buffers = Buffers.allocate(spec)
                np.copyto(buffers.actions, actions)
                engine.bind(buffers)
                engine.step(control)
                stepped = control == 0  # the host, not the engine, clears the outcome of a reset
                for name, array in observation_fields(spec, buffers.observations).items():
                    assert array.tobytes() == expected[name][step].tobytes(), (step, name)
                assert buffers.rewards[stepped].tobytes() == expected["rewards"][step][stepped].tobytes(), step
                assert buffers.actions.tobytes() == np.ascontiguousarray(actions).tobytes()
                control = (expected["terminated"][step] | expected["truncated"][step]).astype(np.uint8)
        finally:
            engine.close()

    def test_envs_and_episodes_start_differently(self, spec: BatchSpec) -> None:
        if not self.random_start:
            pytest.skip("every episode starts from the same observation")
        with self.open_client() as client:
            starts = [client.step(zeros(client), every(client, RESET)).observations.copy() for _ in range(2)]
        rows = np.concatenate(starts).reshape(2 * spec.num_envs, -1)
        assert len(np.unique(rows, axis=0)) == 2 * spec.num_envs

    def test_the_same_seeds_give_the_same_episodes_and_others_do_not(self, spec: BatchSpec) -> None:
        first, again, other = (self._first_frame(spec, seed) for seed in (5, 5, 6000))
        assert first.tobytes() == again.tobytes()
        if self.random_start:
            assert not (first == other).reshape(spec.num_envs, -1).all(axis=1).any()

    def _first_frame(self, spec: BatchSpec, seed: int) -> NDArray[Any]:
        """Return the reset observation after some steps and then a SetSeeds."""
        with self.open_client() as client:
            record_frames(client, self.moves(spec, seed)[:7], reset_ended=True)
            try:
                answer = client.call(_SET_SEEDS, SetSeedsRequest([seed + i for i in range(spec.num_envs)]))
            except Unimplemented:
                pytest.skip(f"engine {spec.engine!r} takes no seeds")
            assert answer.success
            return client.step(zeros(client), every(client, RESET)).observations.copy()
