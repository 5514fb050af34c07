"""The proof that paths answer the same, and that it finds what does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import UnknownName
from lucky_transport.process import unique_name
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.rule import Rule
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.rollout import RolloutPlan
from lucky_transport_migration.parity.step_comparison import Counts, compare_frames, compare_misuse
from lucky_transport_migration.parity.step_parity import MODES, prove, total_steps
from lucky_transport_migration.paths import ConnectedEngine
from tests.planted.changes import one_bit, over_path
from tests.planted.plant import PlantedTransport
from tests.planted.step_plants import described


class Liar(PlantedTransport):
    """Passes everything on, but from exchange `at` on adds a little to one value of `field`."""

    def __init__(self, inner: Transport, field: str, at: int, where: tuple[int, ...]) -> None:
        super().__init__(inner)
        self._field, self._at, self._where = field, at, where

    def change(self, frame: Frame) -> None:
        if frame.seq >= self._at:
            getattr(frame, self._field)[self._where] += 0.5


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Any:
    """Return a function that serves a toy engine in this process and returns a transport to it."""

    def start(**options: Any) -> Transport:
        serving = api.serve(
            "toy", f"inproc://{unique_name()}", num_envs=4, seed=options.pop("seed", 0), options=options
        )
        request.addfinalizer(serving.stop)
        return api.open_transport(serving.endpoints[0])

    return start


def policy(transport: Transport, steps: int) -> RolloutPlan:
    return RolloutPlan(transport.spec, 0, steps)


@pytest.mark.parametrize("mode", MODES)
def test_equal_engines_are_equal_in_every_mode(twin: str, mode: str) -> None:
    outcome = prove("toy", ("inproc", twin), num_envs=4, steps=250, seed=1, modes=(mode,))
    assert outcome.equal
    counts = outcome.modes[mode]
    assert counts.steps == 250
    assert counts.terminations
    assert counts.truncations
    assert min(counts.resets.values()) > 0
    assert counts.misuse >= 10
    assert (counts.final_observations > 0) == (mode == "same_step")


def test_all_modes_are_compared_one_after_the_other(twin: str) -> None:
    ticks: list[object] = []
    outcome = prove("toy", ("inproc", twin), num_envs=3, steps=40, seed=0, modes=MODES, advance=ticks.append)
    assert list(outcome.modes) == ["frames", *MODES]
    assert len(ticks) == total_steps(40, MODES) == outcome.compared["steps"]


def test_what_is_not_compared_is_said_with_a_reason(twin: str) -> None:
    outcome = prove("toy", ("inproc", twin), num_envs=2, steps=5, seed=0)
    left_out = {gap["what"] for gap in outcome.compared["not_compared"]}
    assert {"truncated episodes", "autoreset mode same_step", "autoreset mode disabled", "latency"} <= left_out
    assert all(gap["why"] for gap in outcome.compared["not_compared"])


def test_an_engine_without_seeds_is_reported_and_still_compared(twin: str) -> None:
    outcome = prove("toy", ("inproc", twin), num_envs=2, steps=200, seed=0, options={"seedable": False})
    assert outcome.equal
    assert any("seeds" in why for why in outcome.not_compared.values())


def test_an_engine_that_cannot_hold_is_compared_by_whole_resets(twin: str) -> None:
    outcome = prove("toy", ("inproc", twin), num_envs=3, steps=100, seed=0, modes=MODES, options={"hold": False})
    assert outcome.equal
    assert outcome.modes["next_step"].resets["all"] > 2
    assert outcome.modes["next_step"].resets["some"] == 0
    assert "same_step" not in outcome.modes
    assert "same_step" in outcome.not_compared


def test_a_field_of_the_spec_that_a_rule_leaves_out_may_differ_and_is_listed(
    twin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_path(monkeypatch, twin, described(step_s=lambda spec: 0.5))
    given: dict[str, Any] = {"num_envs": 2, "steps": 5, "seed": 0}
    assert prove("toy", ("inproc", twin), **given).sentence == (
        "DIFFERENT: spec.step_s differs in exchange 0 (spec, frames): inproc 0.02, twin 0.5"
    )
    rules = ComparisonRules({"spec.step_s": Rule(skip="ours is slower")})
    outcome = prove("toy", ("inproc", twin), **given, rules=rules)
    assert outcome.equal
    assert outcome.not_compared["spec.step_s"] == "ours is slower"


def test_a_reward_that_is_not_the_sum_of_its_terms_is_found_even_when_all_agree(serve: Any) -> None:
    liars = {name: Liar(serve(), "rewards", 3, (2,)) for name in ("a", "b")}
    found = compare_frames(liars, policy(liars["a"], 50), 50, Counts())
    assert found is not None
    assert (found.difference.where, found.difference.env) == ("reward", 2)
    assert found.values["a"] == pytest.approx(found.values["sum of its terms"] + 0.5)


def test_another_text_for_the_same_misuse_is_a_difference(serve: Any) -> None:
    envs = {"a": VectorEnv(serve()), "b": VectorEnv(serve())}

    def fail(env: VectorEnv) -> object:
        raise ValueError("left" if env is envs["a"] else "right")

    counts = Counts()
    found = compare_misuse(envs, lambda env: [("a wrong call", fail)], "next_step", counts)
    assert found is not None
    assert found.difference.where == "a wrong call"
    assert found.values == {"a": "ValueError: left", "b": "ValueError: right"}
    assert counts.misuse == 0
    for env in envs.values():
        env.close()


def test_a_difference_ends_the_proof_and_is_in_its_json(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over_path(monkeypatch, twin, one_bit(3, env=1))
    outcome = prove("toy", ("inproc", twin), num_envs=2, steps=30, seed=0, modes=MODES)
    plain = outcome.plain()
    assert not outcome.equal
    assert plain["equal"] is False
    assert list(outcome.modes) == ["frames"]
    assert plain["first_difference"]["env"] == 1
    assert plain["first_difference"]["field"] == "observation"
    assert outcome.sentence.startswith("DIFFERENT: observation of env 1 at [0]")


def test_a_connection_that_steps_after_another_one_is_compared(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connections = ConnectedEngine.connect, Counter[str]()

    def with_a_wrong_third(link: ConnectedEngine) -> Transport:
        connections[link.path.name] += 1
        found = connect(link)
        is_wrong = link.path.name == twin and connections[twin] == 3
        return Liar(found, "observations", 1, (0, 1)) if is_wrong else found

    monkeypatch.setattr(ConnectedEngine, "connect", with_a_wrong_third)
    outcome = prove("toy", ("inproc", twin), num_envs=2, steps=30, seed=0)
    assert outcome.sentence.startswith("DIFFERENT: observation of env 0 at [1]")
    assert list(outcome.modes) == ["frames"]


def test_an_unknown_engine_is_named(twin: str) -> None:
    with pytest.raises(UnknownName, match="no engine 'tyo'; did you mean 'toy'"):
        prove("tyo", ("inproc", twin), num_envs=1, steps=1, seed=0)
