"""Agents are driven one call at a time, by one client at a time; contracts are an agent's, terms are a client's."""

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from lucky_transport.api import make_engine
from lucky_transport.call import Call
from lucky_transport.engine import HOLD, RESET, TICK, Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, EngineFailed
from lucky_transport.host.agent_step import NegotiatedTerms
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import (
    GetCameraFrameRequest,
    NamedImageFrame,
    NegotiateTaskRequest,
    ProgressReport,
    ResetAgentRequest,
    RewardContract,
    RewardTermRequest,
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SimulationContract,
    StepRequest,
    TaskContract,
)
from lucky_transport.messages.methods import method
from tests.support.scripted_engine import ScriptedEngine

STEP = method("AgentService/Step")
RESET_AGENT = method("AgentService/ResetAgent")
NEGOTIATE = method("AgentService/NegotiateTask")
PROGRESS = method("AgentService/ReportProgress")
OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")


class Noting(ScriptedEngine):
    """Notes the control bytes of each exchange, and the contracts between them (0: none)."""

    def __init__(self, num_envs: int) -> None:
        self.noted: list[Any] = []
        note = self.noted.append
        super().__init__(
            num_envs,
            on_step=lambda control: note(None if control is None else control.tolist()),
            services={OPTIONS.name: self._note},
        )

    def _note(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        contract = request.contract or SimulationContract()
        if contract.terrain_type == "lava":
            return SetResetOptionsResponse(False, "no lava here")
        self.noted.append(contract.joint_position_noise)
        return SetResetOptionsResponse(True)


class Filming(ToyEngine):
    """Has one camera, called "front"."""

    def check_camera_requests(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> None:
        for request in requests:
            if request.name != "front":
                raise ValueError(f"no camera {request.name!r}; there is: front")


@pytest.fixture
def host() -> Generator[Host]:
    host = Host(Noting(3))
    yield host
    host.close()


def _noted(host: Host) -> list[Any]:
    engine = host.engine
    assert isinstance(engine, Noting)
    return engine.noted


def _step(host: Host, caller: str = "me", **fields: Any) -> Any:
    return host.call(STEP, StepRequest(**fields), Call(caller))


def _reset(host: Host, name: str, noise: float = 0.0, caller: str = "me") -> Any:
    contract = SimulationContract(joint_position_noise=noise) if noise else None
    return host.call(RESET_AGENT, ResetAgentRequest(name, contract), Call(caller))


def test_a_step_moves_its_agent_and_no_other(host: Host) -> None:
    assert _step(host, agent_name="agent_1", actions=[1.0, 1.0]).success
    assert _noted(host) == [[HOLD, 0, HOLD]]


def test_an_agent_that_is_not_there_is_refused_with_those_there_are(host: Host) -> None:
    assert host.spec.num_envs == 3
    answer = _reset(host, "agent_3")
    assert (answer.success, answer.message) == (False, "no agent 'agent_3'; there are agent_0 to agent_2")


def test_a_step_without_actions_says_so_to_the_engine(host: Host) -> None:
    answer = _step(host, agent_name="agent_2")
    assert answer.observation.actions == [0.0, 0.0]
    assert _noted(host) == [[HOLD, HOLD, TICK]]


def test_the_numbers_of_frames_start_again_with_a_reset(host: Host) -> None:
    numbers = [_step(host).observation.frame_number for _ in range(3)]
    _reset(host, "agent_0")
    assert [*numbers, _step(host).observation.frame_number] == [1, 2, 3, 2]


def test_a_camera_that_raises_is_the_engines_failure() -> None:
    class Broken(Filming):
        def camera_frames(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> list[NamedImageFrame]:
            raise SystemExit(4)

    host = Host(Broken(2))
    with pytest.raises(EngineFailed, match="engine 'toy' failed in camera_frames: SystemExit: 4"):
        _step(host, agent_name="agent_1", camera_requests=[GetCameraFrameRequest(name="front")])


def test_an_unknown_camera_is_refused_before_anything_moves() -> None:
    host = Host(Filming(2))
    answer = _step(host, camera_requests=[GetCameraFrameRequest(name="rear")])
    assert (answer.success, answer.message) == (False, "no camera 'rear'; there is: front")
    assert _step(host).observation.frame_number == 1


# --- contracts ---


def test_each_agent_is_reset_under_its_own_contract(host: Host) -> None:
    _reset(host, "agent_0", 0.25)
    _reset(host, "agent_1", 0.5)
    _reset(host, "agent_0")
    _reset(host, "agent_2")
    zero, one, two = ([RESET, HOLD, HOLD], [HOLD, RESET, HOLD], [HOLD, HOLD, RESET])
    assert _noted(host) == [0.25, zero, 0.5, one, 0.25, zero, 0, two]


def test_setting_the_engines_options_ends_the_agents_contracts(host: Host) -> None:
    _reset(host, "agent_0", 0.25)
    host.call(OPTIONS, SetResetOptionsRequest(SimulationContract(joint_position_noise=0.5)))
    _reset(host, "agent_0")
    assert _noted(host)[2:] == [0.5, [RESET, HOLD, HOLD]]


def test_a_refused_contract_resets_nothing_and_is_not_remembered(host: Host) -> None:
    answer = host.call(RESET_AGENT, ResetAgentRequest("", SimulationContract(terrain_type="lava")), Call("me"))
    assert (answer.success, answer.message) == (False, "no lava here")
    _reset(host, "agent_0")
    assert _noted(host) == [[RESET, HOLD, HOLD]]


def test_changing_a_contract_after_the_call_changes_nothing(host: Host) -> None:
    contract = SimulationContract(joint_position_noise=0.25)
    host.call(RESET_AGENT, ResetAgentRequest("", contract), Call("me"))
    contract.joint_position_noise = 0.75
    _reset(host, "agent_0")
    assert _noted(host)[2] == 0.25


# --- who drives ---


def test_clients_that_step_agents_share_the_engine(host: Host) -> None:
    assert all(_step(host, client).success for client in ("the first", "the second", "the first"))
    with pytest.raises(Busy, match="engine 'toy' is driven by the first; close that client first"):
        host.drive("the trainer", Buffers.allocate(host.spec))
    host.leave("the first")
    with pytest.raises(Busy, match="engine 'toy' is driven by the second; close that client first"):
        host.drive("the trainer", Buffers.allocate(host.spec))
    host.leave("the second")
    host.drive("the trainer", Buffers.allocate(host.spec))


def test_a_contract_ends_with_the_client_that_gave_it(host: Host) -> None:
    _step(host, "another")
    _reset(host, "agent_0", 0.25)
    _reset(host, "agent_0", caller="another")
    host.leave("me")
    _reset(host, "agent_0", caller="another")
    assert [one for one in _noted(host) if isinstance(one, float)] == [0.25, 0.25, 0.0]


def test_a_finished_run_gives_the_agents_back(host: Host) -> None:
    _step(host)
    assert host.call(PROGRESS, ProgressReport("run", finished=False), Call("me")).accepted
    assert host.driver == "me"
    assert host.call(PROGRESS, ProgressReport("run", finished=True), Call("me")).accepted
    assert host.driver == ""
    assert host.agents.progress == ProgressReport("run", finished=True)


# --- terms ---


def test_steps_carry_what_their_client_negotiated_until_it_leaves(host: Host) -> None:
    contract = TaskContract(rewards=RewardContract([RewardTermRequest("alive")]))
    assert host.call(NEGOTIATE, NegotiateTaskRequest(contract), Call("me")).success
    assert list(_step(host).reward_signals) == ["alive"]
    host.leave("me")
    assert list(_step(host).reward_signals) == ["alive", "centred"]


def test_beyond_a_number_of_clients_the_oldest_terms_are_forgotten(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NegotiatedTerms, "MAX_CLIENTS", 2)
    contract = TaskContract(rewards=RewardContract([RewardTermRequest("alive")]))
    for client in ("first", "second", "first", "third"):
        assert host.call(NEGOTIATE, NegotiateTaskRequest(contract), Call(client)).success
    assert list(_step(host, "second").reward_signals) == ["alive", "centred"]
    assert [list(_step(host, client).reward_signals) for client in ("first", "third")] == [["alive"]] * 2


def test_a_negotiation_without_a_contract_asks_for_no_terms(host: Host) -> None:
    assert host.call(NEGOTIATE, NegotiateTaskRequest(), Call("me")).success
    answer = _step(host)
    assert (answer.reward_signals, answer.termination_flags) == ({}, {})


def test_a_step_of_one_agent_is_refused_and_steps_nothing() -> None:
    with InprocTransport(Host(make_engine("toy:composite", 2))) as client:
        answer = client.call(method("AgentService/Step"), StepRequest("agent_1", [0.0] * client.spec.action.size))
        assert not answer.success
        assert answer.message.startswith("engine 'toy' has observations or actions with parts, and a Step carries one")
        assert answer.message.endswith("step it as a batch, which carries every part as it is")
        assert not client.call(method("AgentService/Step"), StepRequest("agent_1")).success
