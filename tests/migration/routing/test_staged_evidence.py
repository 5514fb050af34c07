"""A staged transport under the real policy: a fault is seen, named, and takes the method back at once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.transport import Transport
from lucky_transport_migration.evidence.record import Evidence, read_folder
from lucky_transport_migration.gate.moves import Moves
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.stages.effective_stages import EffectiveStages
from lucky_transport_migration.stages.stage import Placement
from tests.planted.changes import answers, connecting
from tests.support.waiting import PATIENCE_S, until

_SCHEMA = method("AgentService/GetAgentSchema")
_ASKED = GetAgentSchemaRequest("agent_1")

New = Callable[..., Any]


@pytest.fixture
def policy(tmp_path: Path) -> Generator[EvidencePolicy]:
    """Yield the real policy of a project whose methods are canaries, but for the steps."""
    text = '[stages]\ndefault = "canary 50%"\n[stages.methods]\n"AgentService/Step" = "grpc"\n'
    (tmp_path / "lucky_transport.toml").write_text(text)
    found = EvidencePolicy(tmp_path, tell=lambda line: None)
    yield found
    found.close()


def _standing(folder: Path) -> str:
    return str(EffectiveStages.load(folder).placement(_SCHEMA.name))


def _call_until(staged: Transport, condition: Callable[[], bool]) -> None:
    deadline = Deadline(PATIENCE_S)
    while not condition():
        assert not deadline.expired
        staged.call(_SCHEMA, _ASKED)


def test_a_truthful_candidate_stays_where_it_is(
    open_staged: New, serve: New, policy: EvidencePolicy, tmp_path: Path
) -> None:
    endpoint = serve("toy")
    staged = open_staged(policy, endpoint, endpoint)
    for _ in range(60):
        staged.call(_SCHEMA, _ASKED)
    assert staged._target.router.workers.drain(Deadline(PATIENCE_S))
    staged.close()
    policy.close()
    seen = list(read_folder(tmp_path / "lucky-evidence"))
    assert {one.verdict for one in seen} == {"equal"}
    assert len(seen) == 60
    assert {one.primary.transport for one in seen} == {"grpc", "shm"}
    assert _standing(tmp_path) == "canary 50%"


def test_a_lie_takes_a_running_programs_calls_back_to_grpc(
    open_staged: New, serve: New, policy: EvidencePolicy, tmp_path: Path
) -> None:
    endpoint = serve("toy")
    lie = answers(_SCHEMA, lambda answer: setattr(answer.schema, "agent_name", "agent_2"))
    staged = open_staged(policy, endpoint, connecting(endpoint, lie))
    _call_until(staged, lambda: _standing(tmp_path) == "shadow")
    _call_until(staged, lambda: policy.decide(_SCHEMA.name).stage == "shadow")
    assert [policy.decide(_SCHEMA.name).primary for _ in range(10)] == ["grpc"] * 10
    until(lambda: any(one.verdict == "different" for one in read_folder(tmp_path / "lucky-evidence")))
    policy.close()
    # Several calls may have been under way when the first of them was found out.
    different = [one for one in read_folder(tmp_path / "lucky-evidence") if one.verdict == "different"]
    assert {(one.method, one.aspect) for one in different} == {(_SCHEMA.name, "item")}
    assert all(one.where.startswith("schema") for one in different)
    (move,) = Moves(tmp_path).promote("AgentService/GetAgentSchema")
    assert any(one.sentence in move.refused for one in different)
    assert "cool-down" in move.refused


def test_a_candidate_that_is_gone_takes_its_methods_back(
    open_staged: New, serve: New, policy: EvidencePolicy, tmp_path: Path
) -> None:
    staged = open_staged(policy, serve("toy"), "inproc://nobody")
    _call_until(staged, lambda: _standing(tmp_path) == "grpc")
    policy.close()
    failed: Evidence = next(one for one in read_folder(tmp_path / "lucky-evidence") if one.verdict == "failed")
    assert "nobody" in failed.sentence


def test_a_promotion_reaches_a_running_program(
    open_staged: New, serve: New, policy: EvidencePolicy, tmp_path: Path
) -> None:
    endpoint = serve("toy")
    staged = open_staged(policy, endpoint, endpoint)
    staged.call(_SCHEMA, _ASKED)
    Moves(tmp_path).place("AgentService/GetAgentSchema", Placement.parse("complete"))
    _call_until(staged, lambda: policy.decide(_SCHEMA.name).stage == "complete")
    assert staged.call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"
