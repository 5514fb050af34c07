"""The seeded user of an env, and engines with parts: a difference names part and element."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import arrays, views
from lucky_transport.transport import Frame
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from lucky_transport_migration.parity.rollout import WAYS, RolloutPlan
from lucky_transport_migration.parity.step_comparison import StepComparison
from tests.planted.plant import PlantedTransport

BOX = ArraySpec("float32", (2,), -1.0, 1.0)


def spec(num_envs: int = 4, action: ArraySpec = BOX) -> BatchSpec:
    return BatchSpec("test", num_envs, ArraySpec("float32", (3,)), action)


def moves(policy: RolloutPlan, count: int) -> list[Any]:
    return [policy.next() for _ in range(count)]


def test_the_same_seed_makes_the_same_moves() -> None:
    for a, b in zip(moves(RolloutPlan(spec(), 3, 100), 150), moves(RolloutPlan(spec(), 3, 100), 150), strict=True):
        assert (a.kind, a.seed) == (b.kind, b.seed)
        assert a.actions.tobytes() == b.actions.tobytes()
        assert a.mask.tobytes() == b.mask.tobytes()


@pytest.mark.parametrize("part", [slice(0, 400), slice(400, 800), slice(800, 1200)])
def test_resets_with_seeds_options_and_both_occur_from_the_first_step_to_the_last(part: slice) -> None:
    made = moves(RolloutPlan(spec(8), 0, 1200, options=True), 1200)[part]
    brought = {(move.seed is not None, bool(move.options)) for move in made if move.kind in ("one", "some")}
    assert brought == {(True, False), (False, True), (True, True), (False, False)}


@pytest.mark.parametrize(
    "action",
    [
        ArraySpec("int64", (), 3, 6, 4),
        ArraySpec("uint8", (2, 2)),
        ArraySpec("float64", (3,)),
        ArraySpec("float32", (2,), [-2.0, 0.0], [2.0, 1.0]),
        ArraySpec("bool", (2,)),
    ],
)
def test_actions_have_the_dtype_and_shape_of_the_spec(action: ArraySpec) -> None:
    made = [move.actions for move in moves(RolloutPlan(spec(3, action), 0, 50), 50)]
    assert all(one.dtype == action.dtype and one.shape == (3, *action.shape) for one in made)
    if action.n:
        assert {int(v) for one in made for v in one.ravel()} == {3, 4, 5, 6}


TAKES = ("large seeds", "a wide contract", "other options")


def test_resets_have_what_an_engine_takes_and_nothing_else() -> None:
    made = moves(RolloutPlan(spec(8), 0, 1000, options=True, takes=TAKES), 1000)
    firsts = [move.seed if isinstance(move.seed, int) else move.seed[0] for move in made if move.seed is not None]
    assert {0 if one is None else one.bit_length() // 16 for one in firsts} >= {0, 1, 2, 4}
    contracts = [move.options["randomization"] for move in made if "randomization" in move.options]
    noises = [contract["joint_position_noise"] for contract in contracts]
    assert min(noises) < 0.05 < 0.06 < max(noises)
    assert any("noise" in move.options for move in made)
    plain = moves(RolloutPlan(spec(8), 0, 1000, options=True), 1000)
    assert not any("noise" in move.options for move in plain)
    assert all(move.seed < 2**16 for move in plain if isinstance(move.seed, int))


def test_integers_are_not_passed_as_float64() -> None:
    made = moves(RolloutPlan(spec(3, ArraySpec("int64", (), 3, 6, 4)), 0, 100, ways=WAYS), 60)
    assert {move.way for move in made} == {"", *WAYS} - {"float64"}
    assert all(move.actions.dtype == np.int64 for move in made)


def test_a_single_env_is_only_reset_as_a_whole_or_alone() -> None:
    made = moves(RolloutPlan(spec(1), 0, 300), 300)
    assert {move.kind for move in made} <= {"step", "all", "one"}


def test_some_steps_have_the_actions_of_the_step_before() -> None:
    steps = [one for one in moves(RolloutPlan(spec(), 1, 100), 100) if one.kind == "step"]
    assert 4 < sum(np.array_equal(one.actions, other.actions) for one, other in pairwise(steps)) < 15


class FlippedTransport(PlantedTransport):
    """Passes everything on, but from exchange 6 on one pixel of env 1 is another one."""

    def change(self, frame: Frame) -> None:
        if frame.seq >= 6:
            views(frame.observations, self.spec.observation_parts)["camera", "left"][1, 3, 4, 2] ^= 1


@pytest.fixture
def opened(serve: Any) -> Any:
    """Return a function that serves an engine with parts in this process and returns a transport to it."""
    return lambda: api.open_transport(serve("toy:composite", 3, episode_steps=7))


def compared(opened: Any, faulty: VectorEnv, **given: Any) -> Any:
    """Return what forty steps of an env show beside a faulty one."""
    true = VectorEnv(opened())
    policy = RolloutPlan(true.batch_spec, 0, 40)
    return StepComparison("next_step", **given).envs({"true": true, "faulty": faulty}, policy, 40)


def test_a_difference_between_envs_names_the_part_and_its_element(opened: Any) -> None:
    found = compared(opened, VectorEnv(FlippedTransport(opened())))
    assert found.difference.where == 'observation["camera"]["left"]'
    assert found.sentence().startswith('observation["camera"]["left"][3, 4, 2] of env 1 differs in')


class ReusingEnv(VectorEnv):
    """Returns one of the values of a step in the array in which it returned it `apart` steps before: `of` tells where
    that stands.
    """

    of: Callable[[list[Any]], tuple[Any, Any]]
    apart = 1

    def step(self, actions: Any) -> Any:
        made = list(super().step(actions))
        values, key = self.of(made)
        used = self.__dict__.setdefault("used", [])
        if len(used) == self.apart:
            earlier = used.pop(0)
            earlier[...] = values[key]
            values[key] = earlier
        used.append(values[key])
        return tuple(made)


@pytest.mark.parametrize("apart", [1, 3])
@pytest.mark.parametrize(
    "of",
    [
        *(lambda made, at=at: (made, at) for at in (1, 2, 3)),
        lambda made: (made[0]["camera"], "left"),
        lambda made: (made[4], "reward_terms/centred"),
    ],
)
def test_a_step_that_changes_what_an_earlier_one_returned_is_found(opened: Any, of: Any, apart: int) -> None:
    faulty = ReusingEnv(opened())
    faulty.of, faulty.apart = of, apart
    assert compared(opened, faulty).difference.where.startswith("earlier_kept")


def test_arrays_that_cannot_be_written_to_are_found(opened: Any) -> None:
    class SealedEnv(VectorEnv):
        def step(self, actions: Any) -> Any:
            made = super().step(actions)
            made[1].flags.writeable = False
            return made

    assert compared(opened, SealedEnv(opened())).difference.where.startswith("writeable")


@pytest.mark.parametrize("key", ["observation", 'observation["camera"]["left"]'])
def test_a_rule_counts_for_all_parts_or_for_one(opened: Any, key: str) -> None:
    rules = ComparisonRules({key: Rule(abs=1)})
    assert compared(opened, VectorEnv(FlippedTransport(opened())), rules=rules) is None


def test_actions_fill_every_part_within_what_its_dtype_holds(opened: Any) -> None:
    spec = opened().spec
    moves = [RolloutPlan(spec, 3, 100).next() for _ in range(2)]
    assert moves[0].actions.tobytes() == moves[1].actions.tobytes()
    policy = RolloutPlan(spec, 3, 100)
    seen = np.stack([policy.next().actions for _ in range(100)])
    found = {path: values for path, _, values in arrays(seen, spec.action, spec.action_parts)}
    assert set(np.unique(found[("mode",)]).tolist()) == {0, 1, 2, 3}
    assert set(np.unique(found[("gears",)][..., 0]).tolist()) == {0, 1}
    assert (np.abs(found[("push",)]) > 1).any()
