"""A proof of typed calls: a candidate that is late or gone, its evidence, two engines of one path, moving worlds."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import PeerDied, PeerTimeout
from lucky_transport.messages import StepRequest
from lucky_transport.messages.methods import Method, method
from lucky_transport.routing import Decision
from lucky_transport_migration import paths
from lucky_transport_migration.compare.difference import AtCall
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import EQUAL, PROOF, read_folder
from lucky_transport_migration.parity.call_answers import OF_STATES, watched
from lucky_transport_migration.parity.call_proof import prove_commands
from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
from lucky_transport_migration.paths import ConnectedEngine
from tests.planted.changes import answers, fails, over_path

SCHEMA = method("AgentService/GetAgentSchema")


def compared(row: Method, **options: Any) -> Any:
    """Return the outcome of comparing one method."""
    return prove_commands("toy", ("inproc", "twin"), methods=(row,), count=1, **options)


@pytest.mark.parametrize(
    ("error", "said", "lost"),
    [
        (PeerTimeout("planted"), "DEADLINE_EXCEEDED: PeerTimeout: planted", ""),
        (PeerDied("planted"), "UNAVAILABLE: PeerDied: planted", "twin was lost in call "),
    ],
)
def test_a_candidate_that_is_late_or_gone_is_found_and_who_was_lost_is_said(
    twin: str, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, lost: str
) -> None:
    over_path(monkeypatch, twin, fails(SCHEMA, error))
    outcome = compared(SCHEMA)
    first = outcome.first_difference
    assert isinstance(first.place, AtCall)
    assert (first.place.method, first.difference.aspect) == (SCHEMA.name, "code")
    assert first.values == {"inproc": "OK", "twin": said}
    assert outcome.lost.startswith(lost)
    assert bool(outcome.lost) == bool(lost)


def test_what_a_proof_saw_is_evidence_for_the_gate(twin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    over_path(monkeypatch, twin, answers(SCHEMA, lambda answer: setattr(answer.schema, "action_size", 3)))
    with closing(EvidenceWriter(tmp_path)) as writer:
        outcome = compared(SCHEMA, write=writer.write)
    seen = list(read_folder(tmp_path))
    assert [one.verdict for one in seen if one.method == SCHEMA.name] == ["different"]
    (one,) = (one for one in seen if one.verdict == "different")
    assert (one.aspect, one.where, one.shadow and one.shadow.transport) == ("item", "schema.action_size", "inproc")
    assert one.kind == "aa", "both paths of this test are one transport"
    assert list(one.values) == ["inproc", "inproc again"]
    assert {one.method for one in seen} == {SCHEMA.name} < set(outcome.methods), "other calls only lead up to it"


def test_two_engines_behind_one_path_are_equal_and_called_by_number() -> None:
    outcome = prove_commands("toy", ("inproc", "inproc#2"), count=2)
    assert outcome.equal, outcome.sentence
    assert outcome.between == ["inproc", "inproc#2"]
    assert paths.label("inproc#2") == "same process, engine 2"


@pytest.mark.parametrize("engine", ["toy", "mujoco:quadruped"])
def test_streams_of_states_follow_the_world_over_every_transport(engine: str) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    step = StepRequest(actions=[0.1] * 2 if engine == "toy" else [])
    with (
        ConnectedEngine(paths.find_path("inproc"), engine, 2) as left,
        ConnectedEngine(paths.find_path("shm"), engine, 2) as right,
    ):
        for row in OF_STATES:
            mine, other = (watched(step)(link.transport, row, row.request()) for link in (left, right))
            assert (
                compare(Comparison(row.name, Decision("inproc", "shm", PROOF), mine, other), ComparisonRules()).verdict
                == EQUAL
            )
            if mine.code == "OK":
                assert first_unequal(row.response, mine.items[0], mine.items[2], streamed=True), "the world stood still"
