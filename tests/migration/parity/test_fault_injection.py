"""An injected difference of each kind is found by a proof, which names method, aspect, place and both values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import EngineFailed
from lucky_transport.messages import StepRequest
from lucky_transport.messages.methods import Method, method
from lucky_transport.routing import Decision
from lucky_transport.transport import Stream, Transport
from lucky_transport_migration import paths
from lucky_transport_migration.compare.difference import AtCall, AtMove
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import EQUAL, PROOF, read_folder
from lucky_transport_migration.parity import call_answers as answers
from lucky_transport_migration.parity.call_answers import OF_STATES, watched
from lucky_transport_migration.parity.call_proof import prove_commands
from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
from lucky_transport_migration.parity.step_parity import prove
from lucky_transport_migration.paths import ConnectedEngine
from tests.support.fault_injection import STEPS, Fault, FaultSpec, FaultyTransport

SCHEMA = method("AgentService/GetAgentSchema")
TELEMETRY = method("TelemetryService/StreamTelemetry")

Inject = Callable[..., None]


class Numbered(Stream):
    """Items that differ, as those of a moving world do; three of them, or fewer and then an error."""

    def __init__(self, error: Exception | None = None) -> None:
        count = 3 if error is None else 1
        self._items = iter([TELEMETRY.response(frame_number=number) for number in range(10, 10 + count)])
        self._error = error or StopIteration()

    def __next__(self) -> Any:
        item = next(self._items, None)
        if item is None:
            raise self._error
        return item

    def cancel(self) -> None:
        pass


@pytest.fixture
def inject(twin: str, monkeypatch: pytest.MonkeyPatch) -> Inject:
    """Return a function that injects a fault into the path "twin"; all streams have three items, or end in `error`."""
    connect = ConnectedEngine.connect

    def inject_fault(fault: FaultSpec, error: Exception | None = None) -> None:
        def connected(link: ConnectedEngine) -> Transport:
            transport = connect(link)
            monkeypatch.setattr(transport, "stream", lambda *_, **__: Numbered(error))
            return FaultyTransport(transport, fault) if link.path.name == twin else transport

        monkeypatch.setattr(ConnectedEngine, "connect", connected)

    return inject_fault


def compared(row: Method, **options: Any) -> Any:
    """Return the outcome of comparing one method."""
    return prove_commands("toy", ("inproc", "twin"), methods=(row,), count=1, **options)


@pytest.mark.parametrize(
    ("fault", "named", "values"),
    [
        (
            FaultSpec(Fault.BIT, SCHEMA.name, path="schema.action_size"),
            (SCHEMA.name, "item", "schema.action_size"),
            {"inproc": 2, "twin": 3},
        ),
        (
            FaultSpec(Fault.BIT, TELEMETRY.name, item=1, path="frame_number"),
            (TELEMETRY.name, "item", "items[1].frame_number"),
            {"inproc": 11, "twin": 10},
        ),
        (
            FaultSpec(Fault.REORDERED, TELEMETRY.name, item=1),
            (TELEMETRY.name, "order", "items[1]"),
            {"inproc": "item 1", "twin": "item 2"},
        ),
        (
            FaultSpec(Fault.MISSING, TELEMETRY.name, item=1),
            (TELEMETRY.name, "count", "items[1]"),
            {"inproc": "3 items", "twin": "2 items, without item 1 of the other"},
        ),
        (
            FaultSpec(Fault.STATUS, SCHEMA.name),
            (SCHEMA.name, "code", "code"),
            {"inproc": "OK", "twin": f"NOT_FOUND: UnknownName: {SCHEMA.name}: an injected status"},
        ),
        (
            FaultSpec(Fault.CRASH, SCHEMA.name),
            (SCHEMA.name, "code", "code"),
            {"inproc": "OK", "twin": "UNAVAILABLE: PeerDied: the peer is dead: an injected crash"},
        ),
    ],
    ids=lambda value: str(value.fault) if isinstance(value, FaultSpec) else "",
)
def test_an_injected_difference_is_found_and_named(
    inject: Inject, fault: FaultSpec, named: tuple[str, str, str], values: dict[str, Any]
) -> None:
    inject(fault)
    outcome = compared(method(fault.method))
    first = outcome.first_difference
    assert not outcome.equal
    assert isinstance(first.place, AtCall)
    assert (first.place.method, first.difference.aspect, first.difference.where) == named
    assert first.values == values
    assert all(str(value) in outcome.sentence for value in values.values())


def test_another_text_of_an_error_is_found(inject: Inject) -> None:
    inject(FaultSpec(Fault.DETAIL, TELEMETRY.name), error=EngineFailed("the sensor is off"))
    first = compared(TELEMETRY).first_difference
    assert (first.difference.aspect, first.difference.where) == ("details", "details")
    assert first.values["twin"] == f"{first.values['inproc']} (an injected detail)"


def test_a_candidate_that_is_slower_than_its_deadline_is_found(inject: Inject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PATIENCE_S", 2.0)
    inject(FaultSpec(Fault.SLOW, SCHEMA.name, delay_s=60.0))
    first = compared(SCHEMA).first_difference
    assert isinstance(first.place, AtCall)
    assert (first.place.method, first.difference.aspect) == (SCHEMA.name, "code")
    assert first.values["twin"].startswith("DEADLINE_EXCEEDED: PeerTimeout: ")


def test_a_crash_ends_the_proof_and_says_who_was_lost(inject: Inject) -> None:
    inject(FaultSpec(Fault.CRASH, SCHEMA.name))
    outcome = compared(SCHEMA)
    assert outcome.lost.startswith("twin was lost in call ")


@pytest.mark.parametrize(
    ("fault", "field", "value"),
    [
        (FaultSpec(Fault.BIT, STEPS, at=6, env=1), "observation", None),
        (FaultSpec(Fault.STATUS, STEPS, at=6), "error", "UnknownName: the step: an injected status"),
        (FaultSpec(Fault.CRASH, STEPS, at=6), "error", "PeerDied: the peer is dead: an injected crash"),
    ],
    ids=lambda value: str(value.fault) if isinstance(value, FaultSpec) else "",
)
def test_an_injected_difference_in_the_stepping_path_is_found_and_named(
    inject: Inject, fault: FaultSpec, field: str, value: str | None
) -> None:
    inject(fault)
    outcome = prove("toy", ("inproc", "twin"), num_envs=2, steps=20, seed=0)
    found = outcome.difference
    assert found is not None
    assert isinstance(found.place, AtMove)
    assert (found.place.mode, found.difference.where) == ("frames", field)
    assert found.values["inproc"] != found.values["twin"]
    if value is None:
        assert (found.difference.env, found.difference.index) == (1, (0,))
    else:
        assert found.values == {"inproc": "no error", "twin": value}


def test_what_a_proof_saw_is_evidence_for_the_gate(inject: Inject, tmp_path: Path) -> None:
    inject(FaultSpec(Fault.BIT, SCHEMA.name, path="schema.action_size"))
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
