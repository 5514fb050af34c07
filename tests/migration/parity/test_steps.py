"""The proof that engines step and answer alike: what is compared, what is found, what is evidence."""

from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.engine import HOLD
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import Busy, PeerDied, PeerTimeout, UnknownName
from lucky_transport.messages import StepRequest
from lucky_transport.messages.methods import Method, method
from lucky_transport.routing import Decision
from lucky_transport.transport import Transport
from lucky_transport_migration import paths
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.compare.difference import AtCall
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.parity.call_answers import OF_STATES, watched
from lucky_transport_migration.parity.call_proof import prove_commands
from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_pair import ServerPair
from lucky_transport_migration.parity.service_servers import ServerCommand
from lucky_transport_migration.parity.step_comparison import StepComparison
from lucky_transport_migration.parity.step_parity import MODES, prove, total_steps
from tests.planted.changes import answers, fails, one_bit, over_path
from tests.planted.plant import PlantedTransport
from tests.planted.step_plants import described
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")


@pytest.fixture
def opened(serve: Any) -> Any:
    """Return a function that serves a toy engine in this process and returns a transport to it."""
    return lambda: api.open_transport(serve(num_envs=4))


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


def test_another_text_for_the_same_misuse_is_a_difference(opened: Any) -> None:
    envs = {"a": VectorEnv(opened()), "b": VectorEnv(opened())}

    def fail(env: VectorEnv) -> object:
        raise ValueError("left" if env is envs["a"] else "right")

    comparison = StepComparison("next_step")
    found = comparison.misuse(envs, lambda env: [("a wrong call", fail)])
    assert found is not None
    assert found.difference.where == "a wrong call"
    assert found.values == {"a": "ValueError: left", "b": "ValueError: right"}
    assert comparison.counts.misuse == 0
    for env in envs.values():
        env.close()


def test_a_driver_that_comes_too_early_for_some_envs_only_is_no_difference(
    twin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gRPC each env is reset by a call of its own; an engine may learn between two that its driver has gone."""
    connections = count(1)

    class Early(PlantedTransport):
        def __init__(self, inner: Transport) -> None:
            super().__init__(inner)
            self.is_early = next(connections) == 3

        def send(self, actions: Any, control: Any = None) -> None:
            if self.is_early:
                others = np.where(np.arange(self.spec.num_envs) == 0, np.uint8(HOLD), control)
                if (others != HOLD).any():
                    self.inner.step(actions, others)
                raise Busy("driven by a client that has gone")
            super().send(actions, control)

    over_path(monkeypatch, twin, Early)
    outcome = prove("toy", ("inproc", twin), num_envs=2, steps=20, seed=0, modes=())
    assert outcome.equal, outcome.sentence
    assert next(connections) == 5, "it has connected once more"


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


def test_an_unknown_engine_is_named(twin: str) -> None:
    with pytest.raises(UnknownName, match="no engine 'tyo'; did you mean 'toy'"):
        prove("tyo", ("inproc", twin), num_envs=1, steps=1, seed=0)


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
        paths.ConnectedEngine(paths.find_path("inproc"), engine, 2) as left,
        paths.ConnectedEngine(paths.find_path("shm"), engine, 2) as right,
    ):
        for row in OF_STATES:
            mine, other = (watched(step)(link.transport, row, row.request()) for link in (left, right))
            assert (
                compare(
                    Comparison(row.name, Decision("inproc", "shm", "parity"), mine, other), ComparisonRules()
                ).verdict
                == "equal"
            )
            if mine.code == "OK":
                assert first_unequal(row.response, mine.items[0], mine.items[2], streamed=True), "the world stood still"


@dataclass
class Server:
    """Answers every call with one outcome, and keeps what it was asked with."""

    outcome: CallOutcome
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def clients(self) -> Any:
        return [self]

    def ask(self, *_: Any, **given: Any) -> CallOutcome:
        self.asked.append(given)
        return self.outcome


@pytest.fixture(scope="module")
def row(weather: WeatherPrograms) -> Any:
    return methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")[0]


def pair_of(*outcomes: CallOutcome) -> tuple[ServerPair, list[Server]]:
    servers = [Server(one) for one in outcomes]
    return ServerPair(ServerCommand("x {port}"), "shm", ComparisonRules(), 10.0, tuple(servers)), servers  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("control", "candidate", "verdict"),
    [
        ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "equal"),
        ("DEADLINE_EXCEEDED", "OK", "different"),
        ("OK", "DEADLINE_EXCEEDED", "different"),
        ("DEADLINE_EXCEEDED", "UNAVAILABLE", "different"),
    ],
)
def test_a_call_whose_deadline_is_over_ends_alike_on_both(row: Any, control: str, candidate: str, verdict: str) -> None:
    pair, servers = pair_of(CallOutcome("grpc", code=control), CallOutcome("shm", code=candidate))
    asked = pair.ask(row, ServiceCall((row.request(),), is_late=True), reverse=True)
    assert asked.evidence.verdict == verdict
    assert asked.differs == (verdict == "different")
    assert [given["timeout_s"] < 0 for server in servers for given in server.asked] == [True, True]
    if asked.differs:
        assert asked.located(3, "with no time left").values == {"grpc": control, "shm": candidate}


@pytest.mark.parametrize("is_local", [True, False])
def test_only_where_no_connection_stood_a_server_may_have_ended(row: Any, is_local: bool) -> None:
    pair, _ = pair_of(CallOutcome("grpc"), CallOutcome("shm", code="UNAVAILABLE", is_local=is_local))
    asked = pair.ask(row, ServiceCall((row.request(),)), reverse=False)
    assert asked.differs
    assert asked.is_gone == is_local, "a proof waits for the end of a server only then"


def test_an_endless_stream_is_left_after_a_few_items_once_its_calls_have_come_to_no_end(
    weather: WeatherPrograms,
) -> None:
    rows = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    row = next(one for one in rows if one.name.endswith("/WatchForecast"))
    pair, servers = pair_of(*(CallOutcome(one, code="DEADLINE_EXCEEDED", took_us=10.1e6) for one in ("grpc", "shm")))
    for _ in range(4):
        pair.ask(row, ServiceCall((row.request(),)), reverse=False)
    given = [(one["timeout_s"], one["cancel_after"]) for one in servers[0].asked]
    assert given == [(10.0, None)] * 3 + [(2.0, 3)]


@pytest.mark.parametrize(
    ("deadline", "timeout_s", "cancel_after_s"),
    [("", 10.0, None), ("none", None, 10.0), ("long", 2_592_000.0, 10.0), ("short", 4.0, None)],
)
def test_a_call_has_the_deadline_that_it_is_drawn_with(
    row: Any, deadline: str, timeout_s: float | None, cancel_after_s: float | None
) -> None:
    pair, servers = pair_of(*(CallOutcome(name, took_us=0.2e6) for name in ("grpc", "shm")))
    pair.ask(row, ServiceCall((row.request(),)), reverse=False)
    pair.ask(row, ServiceCall((row.request(),), deadline=deadline), reverse=False)
    asked = servers[1].asked[-1]
    assert (asked["timeout_s"], asked["cancel_after_s"]) == (timeout_s, cancel_after_s)
