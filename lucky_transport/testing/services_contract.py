"""Tests of `TransportContract`: typed calls.

The same request gives the same answer as over `inproc`, the same invalid call the same class and text. After a failure
the next call works.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout, Unimplemented
from lucky_transport.messages import (
    ActionGroupEntry,
    GetAgentSchemaRequest,
    GetAgentSchemaResponse,
    GetCameraFrameRequest,
    GetCapabilityManifestRequest,
    GetJointStateRequest,
    GetSceneInfoRequest,
    GetTelemetrySchemaRequest,
    LidarSensorRequest,
    ListEntitiesRequest,
    NegotiateTaskRequest,
    ProgressReport,
    ResetAgentRequest,
    RewardContract,
    RewardTermRequest,
    SimulationContract,
    StepRequest,
    StepResponse,
    StreamTelemetryRequest,
    TaskContract,
    ValidateTaskContractRequest,
)
from lucky_transport.messages.methods import Effect, Method, Runs, method
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, TransportSuite, outcome, outcome_when, zeros
from lucky_transport.transport import Transport

_STEP = method("AgentService/Step")
_RESET = method("AgentService/ResetAgent")
_NEGOTIATE = method("AgentService/NegotiateTask")
_SCHEMA = method("AgentService/GetAgentSchema")
_JOINTS = method("MujocoService/GetJointState")
_TELEMETRY = method("TelemetryService/StreamTelemetry")
_SLOW = method("LidarService/GetLidarBeamAngles")
_FAILING = method("LidarService/GetLidarBeamCount")
_LACKING = method("MujocoSceneService/GetModelInfo")
_LACKING_STREAM = method("CameraService/StreamCamera")


_Call = Callable[[Transport], object]

_REQUESTS: dict[str, tuple[Method, Any]] = {
    "the schema of the default agent": (_SCHEMA, GetAgentSchemaRequest()),
    "the schema of an unknown agent": (_SCHEMA, GetAgentSchemaRequest("agent_9")),
    "the manifest": (method("AgentService/GetCapabilityManifest"), GetCapabilityManifestRequest()),
    "an empty contract": (_NEGOTIATE, NegotiateTaskRequest(TaskContract())),
    "a contract with a typing error": (
        method("AgentService/ValidateTaskContract"),
        ValidateTaskContractRequest(TaskContract("walk", rewards=RewardContract([RewardTermRequest("aliv", 0.5)]))),
    ),
    "a joint state": (_JOINTS, GetJointStateRequest("agent_2")),
    "the joint state of an unknown robot": (_JOINTS, GetJointStateRequest("Zoë")),
    "entities": (method("SceneService/ListEntities"), ListEntitiesRequest(True, True)),
    "the scene": (method("SceneService/GetSceneInfo"), GetSceneInfoRequest()),
    "the telemetry's names": (
        method("TelemetryService/GetTelemetrySchema"),
        GetTelemetrySchemaRequest(),
    ),
    "progress": (method("AgentService/ReportProgress"), ProgressReport("run", current_step=-1)),
}


def _unary(row: Method, request: Any) -> _Call:
    return lambda client: client.call(row, request)


def _first(row: Method, request: Any) -> _Call:
    return lambda client: next(client.stream(row, request))


#: Wrong calls, each of which must raise what the reference raises.
_WRONG_CALLS: dict[str, _Call] = {
    "a method the engine lacks": _unary(_LACKING, _LACKING.request()),
    "another method's request": _unary(_SCHEMA, GetJointStateRequest()),
    "a handler that raises": _unary(_FAILING, LidarSensorRequest(7)),
}
#: The same of streams.
_WRONG_STREAMS: dict[str, _Call] = {
    "a stream the engine lacks": _first(_LACKING_STREAM, _LACKING_STREAM.request()),
    "a stream taken for a call": _unary(_TELEMETRY, StreamTelemetryRequest()),
    "a call taken for a stream": _first(_SCHEMA, GetAgentSchemaRequest()),
    "another stream's request": _first(_TELEMETRY, GetJointStateRequest()),
}

#: Steps of one agent that its engine must refuse.
_WRONG_STEPS = {
    "agent": StepRequest("agent_7"),
    "size": StepRequest(actions=[1.0] * 3),
    "nan": StepRequest("agent_1", [0.0, float("nan")]),
    "camera": StepRequest(camera_requests=[GetCameraFrameRequest(name="front")]),
    "group": StepRequest(action_groups=[ActionGroupEntry("legs", [1.0], [2])]),
}


@needs("commands")
class ServicesContract(TransportSuite):
    """The part of `TransportContract` that is about typed calls and streams."""

    #: False where the hot path itself consists of typed Steps, which then mix with others.
    hot_path_excludes_steps: bool = True

    # answers

    def test_a_call_is_answered_as_without_a_wire(self) -> None:
        with self.open_both() as (client, reference):
            for what, (row, request) in _REQUESTS.items():
                assert client.call(row, request) == reference.call(row, request), what

    def test_a_wrong_call_raises_what_it_raises_without_a_wire(self) -> None:
        with self.open_both(faulty=True) as (client, reference):
            for wrong, call in _WRONG_CALLS.items():
                self.check_refused(client, reference, call, wrong)
                self.check_alive(client)

    @needs("commands", "streams")
    def test_a_wrong_stream_raises_what_it_raises_without_a_wire(self) -> None:
        with self.open_both() as (client, reference):
            for wrong, call in _WRONG_STREAMS.items():
                self.check_refused(client, reference, call, wrong)
                self.check_alive(client)

    def test_a_method_that_no_table_knows_is_unimplemented(self) -> None:
        unknown = Method(
            9999, "/hazel.rpc.AgentService/Fly", GetAgentSchemaRequest, GetAgentSchemaResponse,
            Effect.READ, Runs.INLINE,
        )  # fmt: skip
        with self.open_client() as client:
            with pytest.raises(Unimplemented):
                client.call(unknown, GetAgentSchemaRequest())
            self.check_alive(client)

    # one agent at a time

    def test_agents_are_stepped_one_by_one_as_without_a_wire(self) -> None:
        with self.open_both(seed=3) as (client, reference):
            for number in range(12):
                name = f"agent_{number % 3}"
                if number % 5 == 0:
                    contract = SimulationContract(joint_position_noise=number / 8)
                    reset = ResetAgentRequest(name, contract)
                    assert client.call(_RESET, reset) == reference.call(_RESET, reset)
                step = StepRequest(name, [0.5, number / 16])
                assert _steady(client.call(_STEP, step)) == _steady(reference.call(_STEP, step))

    def test_a_wrong_step_is_refused_in_its_response(self) -> None:
        with self.open_both() as (client, reference):
            for wrong, request in _WRONG_STEPS.items():
                answer = client.call(_STEP, request)
                assert not answer.success, wrong
                assert answer == reference.call(_STEP, request), wrong

    def test_steps_carry_the_terms_their_client_negotiated(self) -> None:
        contract = TaskContract(rewards=RewardContract([RewardTermRequest("centred")]))
        with self.open_client() as client:
            assert client.call(_NEGOTIATE, NegotiateTaskRequest(contract)).success
            answer = client.call(_STEP, StepRequest())
            assert list(answer.reward_signals) == ["centred"]
            assert answer.termination_flags == {}

    @needs("commands", "hot_path_excludes_steps")
    def test_the_driver_of_a_batch_may_not_step_single_agents(self) -> None:
        with self.open_client() as client:
            client.step(zeros(client))
            for row, request in ((_STEP, StepRequest()), (_RESET, ResetAgentRequest())):
                with pytest.raises(Busy, match=r"engine 'toy' is driven by .*; close that client first"):
                    client.call(row, request)
            client.step(zeros(client))

    def test_stepping_agents_shuts_out_another_clients_batch_until_the_first_closes(self) -> None:
        with self.serve() as endpoint:
            first = self.connect(endpoint)
            assert first.call(_STEP, StepRequest()).success
            first.close()
            self.connect_when_free(endpoint).close()

    # deadlines of calls

    def test_a_call_whose_deadline_has_passed_is_not_made(self) -> None:
        with self.open_client() as client:
            with pytest.raises(PeerTimeout):
                client.call(_SCHEMA, GetAgentSchemaRequest(), Deadline(0.0))
            self.check_alive(client)

    @needs("commands", "has_deadlines")
    def test_a_call_ends_at_its_deadline_and_its_late_answer_disturbs_no_other(self) -> None:
        with self.open_client(answer_delay_s=0.3) as client:
            with pytest.raises(PeerTimeout, match=r"0\.05 s"):
                client.call(_SLOW, LidarSensorRequest(1), Deadline(0.05))
            self.check_alive(client)
            assert client.call(_SLOW, LidarSensorRequest(2)).beams == 2

    @needs("commands", "has_deadlines")
    def test_a_slow_handler_delays_no_step(self) -> None:
        with self.open_client(answer_delay_s=1.0) as client, ThreadPoolExecutor(1) as pool:
            client.step(zeros(client))
            slow = pool.submit(client.call, _SLOW, LidarSensorRequest(5))
            for _ in range(4):
                client.step(zeros(client))
            assert not slow.done()  # four steps of microseconds were done within the handler's second
            assert slow.result(PATIENCE_S).beams == 5

    def test_many_threads_call_at_once_and_each_gets_its_own_answer(self) -> None:
        names = [f"agent_{env}" for env in range(16)]
        with self.open_client(num_envs=16) as client, ThreadPoolExecutor(16) as pool:

            def ask(name: str) -> list[str]:
                return [client.call(_SCHEMA, GetAgentSchemaRequest(name)).schema.agent_name for _ in range(20)]

            assert list(pool.map(ask, names, timeout=PATIENCE_S)) == [[name] * 20 for name in names]

    def test_calls_that_were_begun_are_awaited_in_any_order(self) -> None:
        with self.open_client(num_envs=16) as client:
            names = [f"agent_{env}" for env in range(16)]
            begun = {name: client.begin(_SCHEMA, GetAgentSchemaRequest(name)) for name in names}
            for name in reversed(names):
                assert begun[name].result().schema.agent_name == name

    def test_a_call_that_was_begun_fails_as_one_that_was_made(self) -> None:
        with self.open_both() as (client, reference):
            failing = _unary(_FAILING, LidarSensorRequest(7))
            begun = client.begin(_FAILING, LidarSensorRequest(7))
            assert outcome(client, lambda client: begun.result()) == outcome(reference, failing)
            self.check_alive(client)

    @needs("commands", "has_deadlines")
    def test_a_call_that_was_begun_ends_at_its_deadline(self) -> None:
        with self.open_client(answer_delay_s=0.3) as client:
            begun = [client.begin(_SLOW, LidarSensorRequest(n), Deadline(0.05)) for n in range(3)]
            for call in begun:
                with pytest.raises(PeerTimeout, match=r"0\.05 s"):
                    call.result()
            cancelled = client.begin(_SLOW, LidarSensorRequest(1))
            cancelled.cancel()
            cancelled.cancel()
            self.check_alive(client)

    @needs("commands", "has_deadlines")
    def test_closing_ends_a_call_under_way(self) -> None:
        with self.open_client(answer_delay_s=0.5) as client:
            found = outcome_when(client.close, client, _unary(_SLOW, LidarSensorRequest()))
            assert found == "ClosedError: the transport is closed; connect again"


def _steady(response: StepResponse) -> StepResponse:
    """Return the response without what the clock put into it."""
    response.physics_step_duration_us = 0
    if response.observation is not None:
        response.observation.timestamp_ms = 0
    return response
