"""Our client drives an engine that offers the legacy services and nothing else, as a real LuckyEngine does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import EngineFailed, NotReachable, PeerTimeout, SpecError, Unimplemented
from lucky_transport.messages import (
    AgentSchema,
    EngineCapabilityManifest,
    GetAgentSchemaResponse,
    GetCapabilityManifestResponse,
    MdpComponentDescriptor,
    NegotiateTaskResponse,
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SimulationContract,
)
from lucky_transport.messages.methods import Method, method
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import every, open_reference
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport_grpc.legacy_spec import negotiate_all, read_spec

Serve = Callable[..., Serving]
SET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")
SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
AGENT = "/hazel.rpc.AgentService/"


@pytest.mark.parametrize(("num_envs", "steps"), [(1, 80), (3, 60)])
def test_it_gives_the_references_bits(serve: Serve, connect: Any, num_envs: int, steps: int) -> None:
    options: dict[str, Any] = {"seed": 5, "episode_steps": 9, "reset_ticks": 1}
    client = connect(serve(ToyEngine(num_envs, **options), legacy=True))
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
        client.call(SET_SEEDS, SetSeedsRequest([1, 2]))


def test_reset_options_other_than_a_contract_are_refused(serve: Serve, connect: Any) -> None:
    client = connect(serve(legacy=True))
    with pytest.raises(Unimplemented, match='"noise"'):
        client.call(SET_OPTIONS, SetResetOptionsRequest(None, '{"noise": 1}'))


def test_a_contract_travels_in_each_reset_from_then_on(serve: Serve, connect: Any, zeros: Any) -> None:
    contracts: list[Any] = []

    class Noting(ToyEngine):
        @property
        def services(self) -> Mapping[str, Handler]:
            return {SET_OPTIONS.name: self._note}

        def _note(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
            contracts.append(request.contract)
            return SetResetOptionsResponse(True)

    client = connect(serve(Noting(1), legacy=True))
    client.step(zeros(client), every(client, RESET))
    assert contracts == []
    contract = SimulationContract(joint_position_noise=0.5, friction_range=[0.5, 2.0])
    assert client.call(SET_OPTIONS, SetResetOptionsRequest(contract)).success
    for _ in range(2):
        client.step(zeros(client), every(client, RESET))
    assert contracts == [contract, contract]


def test_clients_that_cannot_attach_share_the_engine(serve: Serve, connect: Any, zeros: Any) -> None:
    serving = serve(legacy=True)
    first, second = connect(serving), connect(serving)
    assert [client.step(zeros(client)).seq for client in (first, second, first)] == [1, 1, 2]
    assert serving.host.agents.lease.leases == 1


def test_a_refused_step_is_an_engine_failure_with_the_agents_name(serve: Serve, connect: Any, zeros: Any) -> None:
    client = connect(serve(num_envs=2, legacy=True))
    client._exchange._names[1] = "agent_9"
    with pytest.raises(EngineFailed, match="agent_1 did not step: no agent 'agent_9'"):
        client.step(zeros(client))


# --- an engine that answers otherwise, by a script ---

ROWS = {row.name: row for row in (method(AGENT + name) for name in ("GetAgentSchema", "GetCapabilityManifest"))}


class Scripted:
    """Answers typed calls: schemas by agent name, a manifest, a verdict."""

    def __init__(self, schemas: Mapping[str, tuple[int, int] | Exception], rewards: tuple[str, ...] = ("r",)) -> None:
        self.schemas = schemas
        self.rewards = rewards
        self.verdict = NegotiateTaskResponse(True)
        self.asked: list[str] = []

    def __call__(self, method: Method, request: Any, deadline: Deadline) -> Any:
        if method.name.endswith("GetAgentSchema"):
            return self._schema(request.agent_name)
        if method.name.endswith("GetCapabilityManifest"):
            rewards = [MdpComponentDescriptor(name) for name in self.rewards]
            return GetCapabilityManifestResponse(EngineCapabilityManifest(rewards=rewards))
        return self.verdict

    def _schema(self, name: str) -> GetAgentSchemaResponse:
        self.asked.append(name)
        found = self.schemas.get(name or "agent_0", (0, 0))
        if isinstance(found, Exception):
            raise found
        sizes = AgentSchema(name, ["joints", "base"], [], *found)
        return GetAgentSchemaResponse(sizes)


def test_agents_are_counted_until_one_is_not_there() -> None:
    script = Scripted({"agent_0": (4, 2), "agent_1": (4, 2), "agent_2": LookupError("no such agent")})
    spec = read_spec(script, Deadline(1))
    assert spec is not None
    assert spec.num_envs == 2
    assert script.asked == ["", "agent_1", "agent_2"]
    assert spec.observation_names == ()  # a real engine names terms of several elements


def test_an_engine_that_gives_every_name_the_same_agent_has_one() -> None:
    class One(Scripted):
        def _schema(self, name: str) -> GetAgentSchemaResponse:
            return GetAgentSchemaResponse(AgentSchema("agent_0", [], [], 4, 2))

    spec = read_spec(One({}), Deadline(1))
    assert spec is not None
    assert spec.num_envs == 1


def test_agents_of_two_kinds_are_no_batch() -> None:
    with pytest.raises(SpecError, match="agent_1 has 5 observations and 2 actions, agent_0 has 4"):
        read_spec(Scripted({"agent_0": (4, 2), "agent_1": (5, 2)}), Deadline(1))


def test_an_engine_without_reward_terms_is_refused() -> None:
    with pytest.raises(SpecError, match="names no reward terms"):
        read_spec(Scripted({"agent_0": (4, 2)}, rewards=()), Deadline(1))


def test_an_engine_without_a_manifest_names_no_reward_terms() -> None:
    class Old(Scripted):
        def __call__(self, method: Method, request: Any, deadline: Deadline) -> Any:
            if method.name.endswith("GetCapabilityManifest"):
                raise Unimplemented("Method not found!")
            return super().__call__(method, request, deadline)

    with pytest.raises(SpecError, match="names no reward terms"):
        read_spec(Old({"agent_0": (4, 2)}), Deadline(1))


def test_an_engine_whose_agents_come_late_is_asked_again() -> None:
    answers: Iterator[tuple[int, int]] = iter([(0, 0), (4, 2)])

    class Late(Scripted):
        def _schema(self, name: str) -> GetAgentSchemaResponse:
            self.schemas = {"agent_0": next(answers, (4, 2)), "agent_1": (0, 0)}
            return super()._schema(name)

    spec = read_spec(Late({}), Deadline(5))
    assert spec is not None
    assert spec.num_envs == 1


def test_an_engine_whose_agents_never_come_has_no_spec() -> None:
    assert read_spec(Scripted({}), Deadline(0.1)) is None


def test_an_engine_whose_last_answer_does_not_come_in_time_had_no_agents() -> None:
    answers: Iterator[tuple[int, int] | Exception] = iter([(0, 0), PeerTimeout("too late")])

    class Slow(Scripted):
        def _schema(self, name: str) -> GetAgentSchemaResponse:
            self.schemas = {"agent_0": next(answers)}
            return super()._schema(name)

    assert read_spec(Slow({}), Deadline(60)) is None


def test_an_engine_that_refuses_its_own_terms_is_refused() -> None:
    script = Scripted({"agent_0": (4, 2)})
    spec = read_spec(script, Deadline(1))
    assert spec is not None
    negotiate_all(script, spec, Deadline(1))
    script.verdict = NegotiateTaskResponse(False, "r needs a base")
    with pytest.raises(SpecError, match="r needs a base"):
        negotiate_all(script, spec, Deadline(1))


def test_an_engine_without_agents_is_not_reachable_as_an_engine(serve: Serve, connect: Any) -> None:
    class Empty(ToyEngine):
        @property
        def services(self) -> Mapping[str, Handler]:
            return {AGENT + "GetAgentSchema": lambda _: GetAgentSchemaResponse(AgentSchema())}

    with pytest.raises(NotReachable, match="has no agent that could be stepped"):
        connect(serve(Empty(), legacy=True), connect_timeout_s=5.0)


class Loading(ToyEngine):
    """Refuses its resets with these texts, one after the other; "" is none."""

    def __init__(self, refusals: Iterator[str]) -> None:
        self._refusals = refusals
        super().__init__(1)

    @property
    def services(self) -> Mapping[str, Handler]:
        return {SET_OPTIONS.name: self._answer}

    def _answer(self, request: Any) -> SetResetOptionsResponse:
        refusal = next(self._refusals)
        return SetResetOptionsResponse(not refusal, refusal)


def _loading(serve: Serve, connect: Any, refusals: Iterator[str]) -> Any:
    """Return a client whose resets are refused so."""
    client = connect(serve(Loading(refusals), legacy=True))
    client.call(SET_OPTIONS, SetResetOptionsRequest(SimulationContract(terrain_type="flat")))
    return client


def test_a_reset_that_comes_too_early_is_tried_again(serve: Serve, connect: Any, zeros: Any) -> None:
    refusals = iter(["External agents not ready yet", ""])
    client = _loading(serve, connect, refusals)
    assert np.any(client.step(zeros(client), every(client, RESET)).observations)
    assert next(refusals, None) is None


def test_a_scene_that_loads_for_too_long_is_a_timeout(serve: Serve, connect: Any, zeros: Any) -> None:
    client = _loading(serve, connect, repeat("External agents not ready yet"))
    with pytest.raises(PeerTimeout, match=r"0\.5 s"):
        client.step(zeros(client), every(client, RESET), Deadline(0.5))


def test_a_reset_that_is_refused_for_good_names_the_agent_and_why(serve: Serve, connect: Any, zeros: Any) -> None:
    client = _loading(serve, connect, iter(["no such terrain", ""]))
    with pytest.raises(EngineFailed, match="agent_0 was not reset: no such terrain"):
        client.step(zeros(client), every(client, RESET))
    assert np.any(client.step(zeros(client), every(client, RESET)).observations)
