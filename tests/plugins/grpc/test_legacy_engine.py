"""Our client drives an engine that offers the legacy services and nothing else, as a real LuckyEngine does."""

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import messages as m
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.errors import EngineFailed, NotReachable, PeerTimeout, SpecError, Unimplemented
from lucky_transport.messages.methods import Method, method
from lucky_transport.testing.suite import every, open_reference, zeros
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport_grpc.legacy_spec import negotiate_all, read_spec
from tests.plugins.grpc.conftest import Serve
from tests.support.scripted_engine import ScriptedEngine

SET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")
SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")


@pytest.mark.parametrize(("num_envs", "steps"), [(1, 80), (3, 60)])
def test_it_gives_the_references_bits(serve: Serve, connect: Any, num_envs: int, steps: int) -> None:
    options: dict[str, Any] = {"seed": 5, "episode_steps": 9, "reset_ticks": 1}
    client = connect(serve(ScriptedEngine(num_envs, **options), legacy=True))
    moves = random_moves(client.spec, steps, seed=num_envs)
    with open_reference("toy", num_envs, **options) as reference:
        expected = record_frames(reference, moves)
    assert expected["truncated"].any()
    assert first_difference(record_frames(client, moves), expected) is None


def test_the_spec_is_put_together_from_schema_and_manifest(serve: Serve, connect: Any) -> None:
    client = connect(serve(num_envs=3, obs_size=5, act_size=2, legacy=True))
    spec = client.spec
    assert (spec.engine, spec.num_envs, spec.observation.shape, spec.action.shape) == ("toy", 3, (5,), (2,))
    assert (spec.reward_terms, spec.termination_terms) == (("alive", "centred"), ("out_of_range", "time_out"))
    assert spec.timeout_terms == ("time_out",)
    assert spec.reset_ticks == 1
    assert spec.observation_names == ("x_0", "x_1", "x_2", "x_3", "x_4")
    assert not client.capabilities.sessions


def test_the_batch_service_cannot_be_demanded(serve: Serve, connect: Any) -> None:
    with pytest.raises(Unimplemented, match="no batch service; drop service=batch"):
        connect(serve(legacy=True), "batch")


def test_seeds_need_the_batch_service(serve: Serve, connect: Any) -> None:
    client = connect(serve(legacy=True))
    with pytest.raises(Unimplemented, match="SetSeeds"):
        client.call(SET_SEEDS, m.SetSeedsRequest([1, 2]))


def test_reset_options_other_than_a_contract_are_refused(serve: Serve, connect: Any) -> None:
    client = connect(serve(legacy=True))
    with pytest.raises(Unimplemented, match='"noise"'):
        client.call(SET_OPTIONS, m.SetResetOptionsRequest(None, '{"noise": 1}'))


def test_a_contract_travels_in_each_reset_from_then_on(serve: Serve, connect: Any) -> None:
    contracts: list[Any] = []

    def note(request: m.SetResetOptionsRequest) -> m.SetResetOptionsResponse:
        contracts.append(request.contract)
        return m.SetResetOptionsResponse(True)

    client = connect(serve(ScriptedEngine(services={SET_OPTIONS.name: note}), legacy=True))
    client.step(zeros(client), every(client, RESET))
    assert contracts == []
    contract = m.SimulationContract(joint_position_noise=0.5, friction_range=[0.5, 2.0])
    assert client.call(SET_OPTIONS, m.SetResetOptionsRequest(contract)).success
    for _ in range(2):
        client.step(zeros(client), every(client, RESET))
    assert contracts == [contract, contract]


def test_clients_that_cannot_attach_share_the_engine(serve: Serve, connect: Any) -> None:
    serving = serve(legacy=True)
    first, second = connect(serving), connect(serving)
    assert [client.step(zeros(client)).seq for client in (first, second, first)] == [1, 1, 2]
    assert serving.host.agents.lease.leases == 1


def test_a_refused_step_is_an_engine_failure_with_the_agents_name(serve: Serve, connect: Any) -> None:
    client = connect(serve(num_envs=2, legacy=True))
    client._exchange._names[1] = "agent_9"
    with pytest.raises(EngineFailed, match="agent_1 did not step: no agent 'agent_9'"):
        client.step(zeros(client))


# --- an engine that answers otherwise, by a script ---

#: What an engine answers when it is asked for an agent's schema: sizes, or what the call ends with.
Answer = tuple[int, int] | Exception
SIZES: Answer = (4, 2)


class Scripted:
    """Answers typed calls: schemas by agent name, each answer of a list once and the last one again; a manifest."""

    def __init__(self, schemas: Mapping[str, list[Answer]], rewards: tuple[str, ...] | None = ("r",)) -> None:
        self.schemas = {name: list(answers) for name, answers in schemas.items()}
        self.rewards = rewards
        self.verdict = m.NegotiateTaskResponse(True)

    def __call__(self, method: Method, request: Any, deadline: Deadline) -> Any:
        if method.name.endswith("GetAgentSchema"):
            return self._schema(request.agent_name)
        if method.name.endswith("GetCapabilityManifest"):
            if self.rewards is None:
                raise Unimplemented("Method not found!")
            rewards = [m.MdpComponentDescriptor(name) for name in self.rewards]
            return m.GetCapabilityManifestResponse(m.EngineCapabilityManifest(rewards=rewards))
        return self.verdict

    def _schema(self, name: str) -> m.GetAgentSchemaResponse:
        answers = self.schemas.get(name or "agent_0", self.schemas.get("any", [(0, 0)]))
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        named = "agent_0" if "any" in self.schemas else name
        return m.GetAgentSchemaResponse(m.AgentSchema(named, ["joints", "base"], [], *found))


@pytest.mark.parametrize(
    ("schemas", "num_envs"),
    [
        ({"agent_0": [SIZES], "agent_1": [SIZES], "agent_2": [LookupError("no such agent")]}, 2),
        ({"any": [SIZES]}, 1),
        ({"agent_0": [(0, 0), SIZES]}, 1),
        ({}, None),
        ({"agent_0": [(0, 0), PeerTimeout("too late")]}, None),
    ],
    ids=["until one is not there", "one by every name", "late", "never", "too late"],
)
def test_agents_are_counted_until_one_is_not_there(schemas: Any, num_envs: int | None) -> None:
    spec = read_spec(Scripted(schemas), Deadline(0.1 if not schemas else 60))
    assert (spec and spec.num_envs) == num_envs
    assert not spec or spec.observation_names == ()  # a real engine names terms of several elements


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            Scripted({"agent_0": [SIZES], "agent_1": [(5, 2)]}),
            "agent_1 has 5 observations and 2 actions, agent_0 has 4",
        ),
        (Scripted({"agent_0": [SIZES]}, rewards=()), "names no reward terms"),
        (Scripted({"agent_0": [SIZES]}, rewards=None), "names no reward terms"),
    ],
)
def test_an_engine_that_makes_no_batch_is_refused(script: Scripted, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_spec(script, Deadline(1))


def test_an_engine_that_refuses_its_own_terms_is_refused() -> None:
    script = Scripted({"agent_0": [SIZES]})
    spec = read_spec(script, Deadline(1))
    assert spec is not None
    negotiate_all(script, spec, Deadline(1))
    script.verdict = m.NegotiateTaskResponse(False, "r needs a base")
    with pytest.raises(SpecError, match="r needs a base"):
        negotiate_all(script, spec, Deadline(1))


def test_an_engine_without_agents_is_not_reachable_as_an_engine(serve: Serve, connect: Any) -> None:
    empty = {"/hazel.rpc.AgentService/GetAgentSchema": lambda _: m.GetAgentSchemaResponse(m.AgentSchema())}
    with pytest.raises(NotReachable, match="has no agent that could be stepped"):
        connect(serve(ScriptedEngine(services=empty), legacy=True), connect_timeout_s=5.0)


def _loading(serve: Serve, connect: Any, refusals: Iterable[str]) -> Any:
    """Return a client whose resets are refused with these texts, one after the other; "" is none."""
    texts = iter(refusals)

    def answer(request: Any) -> m.SetResetOptionsResponse:
        refusal = next(texts)
        return m.SetResetOptionsResponse(not refusal, refusal)

    client = connect(serve(ScriptedEngine(services={SET_OPTIONS.name: answer}), legacy=True))
    client.call(SET_OPTIONS, m.SetResetOptionsRequest(m.SimulationContract(terrain_type="flat")))
    return client


def test_a_reset_that_comes_too_early_is_tried_again(serve: Serve, connect: Any) -> None:
    refusals = iter(["External agents not ready yet", ""])
    client = _loading(serve, connect, refusals)
    assert np.any(client.step(zeros(client), every(client, RESET)).observations)
    assert next(refusals, None) is None


def test_a_scene_that_loads_for_too_long_is_a_timeout(serve: Serve, connect: Any) -> None:
    client = _loading(serve, connect, repeat("External agents not ready yet"))
    with pytest.raises(PeerTimeout, match=r"0\.5 s"):
        client.step(zeros(client), every(client, RESET), Deadline(0.5))


def test_a_reset_that_is_refused_for_good_names_the_agent_and_why(serve: Serve, connect: Any) -> None:
    client = _loading(serve, connect, ["no such terrain", ""])
    with pytest.raises(EngineFailed, match="agent_0 was not reset: no such terrain"):
        client.step(zeros(client), every(client, RESET))
    assert np.any(client.step(zeros(client), every(client, RESET)).observations)
