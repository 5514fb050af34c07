"""Parity of engines with parts: every part is compared as what it is, and a difference names part and element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from lucky_transport.spec.composite import arrays, views
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.rule import Rule
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.rollout import RolloutPlan
from lucky_transport_migration.parity.step_comparison import Counts, compare_envs
from lucky_transport_migration.parity.step_parity import MODES, prove
from tests.planted.plant import PlantedTransport

ENGINE = "toy:composite"


class FlippedTransport(PlantedTransport):
    """Passes everything on, but from exchange 6 on one pixel of env 1 is another one."""

    def change(self, frame: Frame) -> None:
        if frame.seq >= 6:
            views(frame.observations, self.spec.observation_parts)["camera", "left"][1, 3, 4, 2] ^= 1


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Any:
    """Return a function that serves an engine with parts in this process and returns a transport to it."""

    def start() -> Transport:
        serving = api.serve(ENGINE, f"inproc://{unique_name()}", num_envs=3, options={"episode_steps": 7})
        request.addfinalizer(serving.stop)
        return api.open_transport(serving.endpoints[0])

    return start


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
def test_equal_engines_are_equal_in_every_mode(mode: str) -> None:
    outcome = prove(ENGINE, ("inproc", "shm"), num_envs=3, steps=60, seed=1, modes=(mode,))
    assert outcome.equal, outcome.difference
    assert outcome.modes[mode].steps == 60


def test_a_difference_between_envs_names_the_part_and_its_element(serve: Any) -> None:
    envs = {"true": VectorEnv(serve()), "faulty": VectorEnv(FlippedTransport(serve()))}
    policy = RolloutPlan(envs["true"].batch_spec, 0, 40)
    found = compare_envs(envs, policy, 40, "next_step", Counts())
    assert found is not None
    assert found.difference.where == 'observation["camera"]["left"]'
    assert found.sentence().startswith('observation["camera"]["left"][3, 4, 2] of env 1 differs in')


@pytest.mark.parametrize("key", ["observation", 'observation["camera"]["left"]'])
def test_a_rule_counts_for_all_parts_or_for_one(serve: Any, key: str) -> None:
    envs = {"true": VectorEnv(serve()), "faulty": VectorEnv(FlippedTransport(serve()))}
    policy = RolloutPlan(envs["true"].batch_spec, 0, 40)
    assert compare_envs(envs, policy, 40, "next_step", Counts(), rules=ComparisonRules({key: Rule(abs=1)})) is None


def test_actions_fill_every_part_within_what_its_dtype_holds(serve: Any) -> None:
    spec = serve().spec
    moves = [RolloutPlan(spec, 3, 100).next() for _ in range(2)]
    assert moves[0].actions.tobytes() == moves[1].actions.tobytes()
    policy = RolloutPlan(spec, 3, 100)
    seen = np.stack([policy.next().actions for _ in range(100)])
    found = {path: values for path, _, values in arrays(seen, spec.action, spec.action_parts)}
    assert set(np.unique(found[("mode",)]).tolist()) == {0, 1, 2, 3}
    assert set(np.unique(found[("gears",)][..., 0]).tolist()) == {0, 1}
    assert (np.abs(found[("push",)]) > 1).any()
