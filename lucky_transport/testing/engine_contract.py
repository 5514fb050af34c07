"""What every engine promises, as tests: inherit `EngineContract` and say how to make one.

A failure names the rule, the value that breaks it, and the section of the page that explains the rule. The
main rule: an env's trajectory depends on its seed, its actions and its own resets, and on nothing else; not on its
neighbours, not on the buffers it is bound to, not on how often it was held.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.env.composite import observation_fields
from lucky_transport.errors import Unimplemented
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.spec.batch_spec import BatchSpec, total_reward
from lucky_transport.spec.composite import Part, place
from lucky_transport.testing.needs import Suite, needs
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport.testing.trajectories import (
    Move,
    Trajectory,
    first_difference,
    random_actions,
    random_moves,
    record_frames,
)
from lucky_transport.transport import Transport

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")


def _require(kept: Any, rule: str, found: object, section: str) -> None:
    """Fail with the rule, what was found instead, and the section of the guide, unless the rule is kept."""
    __tracebackhide__ = True
    if not kept:
        where = f"see 'Write an engine or a transport' in the documentation, section {section!r}"
        pytest.fail(f"{rule}; found: {found}; {where}", pytrace=True)


def _require_equal(left: Trajectory, right: Trajectory, rule: str, section: str) -> None:
    """Fail as `_require` does where two trajectories differ."""
    __tracebackhide__ = True
    difference = first_difference(left, right)
    _require(difference is None, rule, difference, section)


class EngineContract(Suite):
    """Inherit and write `make_engine`; see `lucky_transport.testing`."""

    #: Exchanges per test; episodes must end within them.
    steps: int = 120
    #: Envs of a batch.
    num_envs: int = 4
    #: False when every episode starts from the same observation.
    random_start: bool = True
    #: Whether the engine can hold envs, and whether it takes seeds; None: a test that needs it finds out.
    hold: bool | None = None
    seeds: bool | None = None

    def make_engine(self, num_envs: int) -> Engine:
        """Return a fresh engine of `num_envs` envs; two of them must behave alike. Keep its episodes short."""
        raise NotImplementedError("an EngineContract needs make_engine")

    @contextmanager
    def open_client(self) -> Generator[Transport]:
        """Yield a client of a fresh engine."""
        with open_reference(self.make_engine(self.num_envs)) as client:
            yield client

    def record(self, moves: Sequence[Move]) -> dict[str, NDArray[Any]]:
        """Return a fresh engine's answers to `moves`; an env that ended is reset, because no rule says what stepping it
        does.
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

    def test_the_suite_declares_what_the_engine_can(self, spec: BatchSpec) -> None:
        with self.open_client() as client:
            can_seed = client.implements(_SET_SEEDS)
        _require(self.hold in (None, spec.hold), f"`hold = {self.hold}` of the test class", spec.hold, "Resets")
        _require(self.seeds in (None, can_seed), f"`seeds = {self.seeds}` of the test class", can_seed, "Seeds")

    def test_the_spec_survives_its_journey(self, spec: BatchSpec) -> None:
        again = BatchSpec.from_json(spec.to_json())
        _require(again == spec, "the spec is the same after its journey as JSON", again, "Spaces")

    def test_the_spec_offers_the_number_of_envs_asked_for(self, spec: BatchSpec) -> None:
        rule = f"make_engine({self.num_envs}) makes an engine of {self.num_envs} envs"
        _require(spec.num_envs == self.num_envs, rule, f"spec.num_envs = {spec.num_envs}", "The factory")

    def test_equal_engines_give_equal_frames(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        rule = "two engines made alike give the same frames"
        _require_equal(self.record(moves), self.record(moves), rule, "The factory")

    def test_episodes_end_within_this_suite(self, spec: BatchSpec) -> None:
        start, *others = self.moves(spec)  # the first move resets: not every engine steps before that
        frames = self.record([start, *((actions, None) for actions, _ in others)])
        ended = (frames["terminated"] | frames["truncated"]).any()
        rule = "episodes end within this suite: make them shorter in make_engine, or raise `steps` of the test class"
        _require(ended, rule, f"no end in {self.steps} steps of {spec.num_envs} envs", "Time limits")

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
        _require_equal(alone, among_others, "env 0 does the same whatever its neighbours do", "Independent envs")

    @needs("hold")
    def test_holding_an_env_does_not_change_what_it_does_later(self, spec: BatchSpec) -> None:
        if not spec.hold:
            pytest.skip(f"engine {spec.engine!r} declares no hold")
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
        rule = "HOLD leaves an env and its rows exactly as they are"
        _require_equal(expected, stepped, f"{rule}: what it does later is the same", "Resets")
        _require_equal(expected, again, f"{rule}: the frame of a hold is the one before", "Resets")

    def test_frames_that_go_into_several_slots_by_turns_are_the_same(self, spec: BatchSpec) -> None:
        moves = self.moves(spec, 3)
        with open_reference(self.make_engine(self.num_envs), observation_slots=2) as client:
            found = record_frames(client, moves, reset_ended=True)
        rule = "`bind_slot` returns True only if a step writes the whole row of every env that is not held"
        _require_equal(self.record(moves), found, rule, "Independent envs")

    def test_envs_that_are_stepped_on_their_own_give_the_frames_that_they_give_together(self, spec: BatchSpec) -> None:
        moves = [
            (actions, None if control is None else control & np.uint8(RESET))
            for actions, control in self.moves(spec, 4)
        ]
        together = self.record(moves)
        with self.open_client() as client:
            if not client.capabilities.async_envs:
                with pytest.raises(Unimplemented, match="steps its envs together"):
                    client.send_envs(moves[0][0])
                return
            ended = np.zeros(spec.num_envs, np.uint8)
            for step, (actions, control) in enumerate(moves):
                client.send_envs(actions, control=ended if control is None else ended | control)
                _, frame = client.recv_envs(spec.num_envs)
                ended = frame.terminated | frame.truncated
                for name, array in observation_fields(spec, frame.observations).items():
                    same = array.tobytes() == together[name][step].tobytes()
                    rule = "`step_env` does to each env what `step` does"
                    _require(same, rule, f"other {name} in step {step}", "Independent envs")

    def test_the_rewards_are_the_sum_of_their_terms(self, spec: BatchSpec) -> None:
        frames = self.record(self.moves(spec))
        for step, (rewards, signals) in enumerate(zip(frames["rewards"], frames["signals"], strict=True)):
            total = total_reward(np.ascontiguousarray(signals.T), len(spec.reward_terms))
            rule = f"rewards are the float32 sum of {', '.join(spec.reward_terms)}, bit for bit"
            found = f"rewards {rewards.tolist()} and sums {total.tolist()} in step {step}"
            _require(rewards.tobytes() == total.tobytes(), rule, found, "Rewards")

    def test_a_reset_env_has_no_outcome(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        frames = self.record(moves)
        for step, (_, control) in enumerate(moves):
            reset = np.zeros(spec.num_envs, np.bool_) if control is None else (control & RESET) != 0
            for name in ("rewards", "terminated", "truncated", "signals"):
                left = frames[name][step][reset]
                found = f"{name} {left.tolist()} in step {step}"
                _require(not left.any(), "an env that is reset has no reward, flags or signals", found, "Resets")

    def test_the_termination_terms_explain_the_flags(self, spec: BatchSpec) -> None:
        frames = self.record(self.moves(spec))
        terms = frames["signals"][:, :, len(spec.reward_terms) :]
        values = np.unique(terms).tolist()
        _require(np.isin(terms, (0, 1)).all(), "a termination term is 0 or 1", values, "Time limits")
        if not spec.termination_terms:
            return
        truncating = np.isin(spec.termination_terms, spec.timeout_terms)
        for flag, among in (("terminated", ~truncating), ("truncated", truncating)):
            names = np.array(spec.termination_terms)[among].tolist()
            wrong = np.argwhere(terms[:, :, among].any(axis=2) != frames[flag])
            rule = f"{flag} is set exactly where one of {names} is set"
            if len(wrong):
                step, env = wrong[0].tolist()
                shown = dict(zip(names, terms[step, env, among].tolist(), strict=True))
                found = f"{flag} {bool(frames[flag][step, env])} with {shown}, env {env} in step {step}"
                _require(False, rule, found, "Time limits")

    def test_the_action_of_a_reset_env_is_ignored(self, spec: BatchSpec) -> None:
        moves = self.moves(spec)
        other = [(actions.copy(), control) for actions, control in moves]
        generator = np.random.default_rng(9)
        for actions, control in other:
            if control is not None:
                reset = (control & RESET) != 0
                actions[reset] = random_actions(spec, generator)[reset]
        rule = "the action of an env that is reset has no effect"
        _require_equal(self.record(moves), self.record(other), rule, "Resets")

    def test_observations_lie_in_their_space(self, spec: BatchSpec) -> None:
        whole = [Part((), spec.observation)]
        frames = self.record(self.moves(spec))
        for part in (*(spec.observation_parts or whole), *spec.info_parts):
            what = "info" if part in spec.info_parts else "observation"
            name = place(what, part.path) if spec.observation_parts else "observations"
            space, found = part.array.space(), frames[name]
            outside = [at for at in np.ndindex(found.shape[:2]) if not space.contains(np.asarray(found[at]))]
            rule = f"{name} lies in its space, {space}"
            value = f"{found[outside[0]]} of (step, env) {outside[0]}" if outside else ""
            _require(not outside, rule, value, "Spaces")

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
                rule = "binding to other buffers between two steps changes nothing"
                rows = {**observation_fields(spec, buffers.observations), "rewards": buffers.rewards}
                for name, array in rows.items():
                    envs = stepped if name == "rewards" else slice(None)
                    before, now = expected[name][step][envs], array[envs]
                    found = f"{name} {now.tolist()} in step {step}, {before.tolist()} without"
                    _require(now.tobytes() == before.tobytes(), rule, found, "Independent envs")
                kept = buffers.actions.tobytes() == np.ascontiguousarray(actions).tobytes()
                _require(kept, "an engine only reads actions", buffers.actions.tolist(), "Independent envs")
                control = (expected["terminated"][step] | expected["truncated"][step]).astype(np.uint8)
        finally:
            engine.close()

    @needs("random_start")
    def test_envs_and_episodes_start_differently(self, spec: BatchSpec) -> None:
        with self.open_client() as client:
            starts = [client.step(zeros(client), every(client, RESET)).observations.copy() for _ in range(2)]
        rows = np.concatenate(starts).reshape(2 * spec.num_envs, -1)
        different = len(np.unique(rows, axis=0))
        rule = f"two episodes of {spec.num_envs} envs have {2 * spec.num_envs} different starts"
        found = f"{different}: {rows.tolist() if rows.size <= 64 else 'large rows'}"
        _require(different == 2 * spec.num_envs, rule, found, "Different starts")

    @needs("seeds")
    def test_the_same_seeds_give_the_same_episodes_and_others_do_not(self, spec: BatchSpec) -> None:
        first, again, other = (self._first_frame(spec, seed, past) for seed, past in ((5, 5), (5, 6), (6000, 5)))
        found = f"{first.tolist()} and {again.tolist()}" if first.size <= 64 else "two large observations"
        rule = "the same seed gives the same start, whatever came before"
        _require(first.tobytes() == again.tobytes(), rule, found, "Seeds")
        if self.random_start:
            alike = np.flatnonzero((first == other).reshape(spec.num_envs, -1).all(axis=1)).tolist()
            _require(not alike, "another seed gives another start", f"envs {alike} start alike", "Seeds")

    def _first_frame(self, spec: BatchSpec, seed: int, past: int) -> NDArray[Any]:
        """Return the reset observation after some steps, others for another `past`, and then a SetSeeds."""
        with self.open_client() as client:
            record_frames(client, self.moves(spec, past)[:7], reset_ended=True)
            if not client.implements(_SET_SEEDS):
                pytest.skip(f"engine {spec.engine!r} takes no seeds")
            answer = client.call(_SET_SEEDS, SetSeedsRequest([seed + i for i in range(spec.num_envs)]))
            _require(answer.success, "SetSeeds takes a seed per env", answer.message or "success = False", "Seeds")
            return client.step(zeros(client), every(client, RESET)).observations.copy()
