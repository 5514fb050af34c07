"""The host: one lock, one driver, the driver's own memory, and words for every refusal."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, ClosedError, EngineFailed, SpecError, Unimplemented
from lucky_transport.host.host import Host
from lucky_transport.messages.agent import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.messages.mujoco import GetJointStateRequest, GetMujocoInfoRequest, GetMujocoInfoResponse
from lucky_transport.messages.task import (
    NegotiateTaskRequest,
    ObservationContract,
    ObservationTermRequest,
    RewardContract,
    RewardTermRequest,
    TaskContract,
)

SCHEMA = method("AgentService/GetAgentSchema")
MANIFEST = method("AgentService/GetCapabilityManifest")
VALIDATE = method("AgentService/ValidateTaskContract")
NEGOTIATE = method("AgentService/NegotiateTask")
INFO = method("MujocoService/GetMujocoInfo")
JOINTS = method("MujocoService/GetJointState")


class Dirty(ToyEngine):
    """Rewards even a reset, and answers one method in whatever way `answer` says."""

    def __init__(self, answer: Handler | None = None) -> None:
        super().__init__(3, reset_ticks=1)
        self._answer = answer
        self.closed = 0

    @property
    def services(self) -> Mapping[str, Handler]:
        return super().services if self._answer is None else {**super().services, INFO.name: self._answer}

    def step(self, control: NDArray[np.uint8] | None) -> None:
        super().step(control)
        out = self._buffers
        out.rewards[:] = 7
        out.terminated[:] = out.truncated[:] = 1
        out.signals[:] = 9

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def host() -> Iterator[Host]:
    """A host of a plain toy engine with three envs."""
    host = Host(ToyEngine(3))
    yield host
    host.close()


def _buffers(host: Host) -> Buffers:
    return Buffers.allocate(host.spec)


def test_the_engine_writes_into_the_drivers_own_buffers(host: Host) -> None:
    buffers = _buffers(host)
    host.drive("me", buffers).step(np.full(3, RESET, np.uint8))
    assert buffers.observations.any()


def test_a_new_driver_sees_the_last_frame_at_once(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.step()
    lease.release()
    host.drive("second", second)
    for name in ("observations", "rewards", "terminated", "truncated", "signals"):
        assert getattr(second, name).tobytes() == getattr(first, name).tobytes(), name


def test_a_released_drivers_buffers_are_never_touched_again(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.release()
    kept = first.observations.copy()
    host.drive("second", second).step()
    assert first.observations.tobytes() == kept.tobytes() != second.observations.tobytes()


def test_a_second_driver_is_refused_by_the_firsts_name(host: Host) -> None:
    host.drive("the first", _buffers(host))
    assert host.driver == "the first"
    with pytest.raises(Busy, match=r"engine 'toy' is driven by the first; close that client first, or start another"):
        host.drive("the second", _buffers(host))


def test_an_idle_driver_can_be_replaced_and_then_drives_no_more(host: Host) -> None:
    old = host.drive("idle one", _buffers(host), is_idle=lambda: True)
    host.drive("busy one", _buffers(host))
    with pytest.raises(Busy, match="no longer driven by idle one; connect again"):
        old.step()
    old.release()
    assert host.driver == "busy one"


def test_releasing_twice_is_releasing_once(host: Host) -> None:
    lease = host.drive("me", _buffers(host))
    lease.release()
    lease.release()
    assert host.driver == ""


def test_reset_envs_have_no_outcome_whatever_the_engine_wrote() -> None:
    host = Host(Dirty())
    buffers = _buffers(host)
    host.drive("me", buffers).step(np.array([RESET, 0, HOLD], np.uint8))
    assert buffers.rewards.tolist() == [0, 7, 7]
    assert buffers.terminated.tolist() == buffers.truncated.tolist() == [0, 1, 1]
    assert buffers.signals[:, 0].tolist() == [0, 0, 0, 0]
    assert (buffers.signals[:, 1:] == 9).all()


def test_an_engine_that_raises_is_named_with_its_error() -> None:
    host = Host(ToyEngine(3, fail_at=1))
    lease = host.drive("me", _buffers(host))
    with pytest.raises(EngineFailed, match=r"^engine 'toy' failed in step: ArithmeticError: toy engine"):
        lease.step()
    lease.step()


def test_a_method_the_engine_lacks_is_unimplemented(host: Host) -> None:
    assert not host.implements(JOINTS)
    with pytest.raises(Unimplemented, match=r"engine 'toy' does not implement /hazel.rpc.MujocoService/GetJointState"):
        host.call(JOINTS, GetJointStateRequest())


def test_a_handler_that_raises_is_named_with_its_method() -> None:
    def answer(request: GetMujocoInfoRequest) -> GetMujocoInfoResponse:
        raise KeyError("gone")

    with pytest.raises(EngineFailed, match=r"failed in /hazel.rpc.MujocoService/GetMujocoInfo: KeyError: 'gone'"):
        Host(Dirty(answer)).call(INFO, GetMujocoInfoRequest())


def test_a_handlers_own_transport_error_goes_through_unchanged() -> None:
    def answer(request: GetMujocoInfoRequest) -> GetMujocoInfoResponse:
        raise SpecError("no such robot")

    with pytest.raises(SpecError, match=r"^no such robot$"):
        Host(Dirty(answer)).call(INFO, GetMujocoInfoRequest())


def test_a_command_of_the_engine_waits_for_the_step_in_progress() -> None:
    """Commands and steps never run at the same time, whatever threads they come from."""
    inside, overlaps = threading.Lock(), []

    class Watched(ToyEngine):
        def step(self, control: NDArray[np.uint8] | None) -> None:
            overlaps.append(not inside.acquire(blocking=False))
            super().step(control)
            inside.release()

        @property
        def services(self) -> Mapping[str, Handler]:
            def answer(request: Any) -> Any:
                overlaps.append(not inside.acquire(blocking=False))
                inside.release()
                return request

            return {JOINTS.name: answer}

    host = Host(Watched(1, step_delay_s=0.001))
    lease = host.drive("me", _buffers(host))
    caller = threading.Thread(target=lambda: [host.call(JOINTS, GetJointStateRequest()) for _ in range(200)])
    caller.start()
    for _ in range(20):
        lease.step()
    caller.join()
    assert len(overlaps) == 220
    assert not any(overlaps)


def test_closing_ends_the_engine_once_and_refuses_new_drivers() -> None:
    engine = Dirty()
    host = Host(engine)
    lease = host.drive("me", _buffers(host))
    host.close()
    host.close()
    assert engine.closed == 1
    with pytest.raises(ClosedError, match="the engine is closing"):
        host.drive("late", _buffers(host))
    with pytest.raises(Busy):
        lease.step()


@pytest.mark.parametrize(("name", "found"), [("", "agent_0"), ("agent_2", "agent_2")])
def test_the_schema_tells_sizes_and_names_of_an_agent(host: Host, name: str, found: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == (found, 8, 2)
    assert schema.action_names == ["a_0", "a_1"]


@pytest.mark.parametrize("name", ["agent_3", "agent_x", "robot", "agent_-1", "agent_٣"])
def test_the_schema_of_an_unknown_agent_has_no_sizes(host: Host, name: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.observation_size, schema.action_size) == (0, 0)


def test_the_manifest_lists_what_a_contract_may_ask_for(host: Host) -> None:
    manifest = host.call(MANIFEST, MANIFEST.request()).manifest
    assert [term.name for term in manifest.rewards] == ["alive", "centred"]
    assert [term.name for term in manifest.terminations] == ["out_of_range", "time_out"]
    assert manifest.robot_info.name == "toy"


def _contract(reward: str, observation: str = "observation", optional: str = "observation") -> TaskContract:
    return TaskContract(
        task_id="walk",
        observations=ObservationContract(
            required=[ObservationTermRequest(name=observation)], optional=[ObservationTermRequest(name=optional)]
        ),
        rewards=RewardContract(engine_terms=[RewardTermRequest(name=reward)]),
    )


def test_a_contract_that_fits_is_negotiated(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("alive")))
    assert answer.success
    assert answer.session.reward_terms == ["alive"]
    assert [slot.size for slot in answer.session.observation_layout] == [8]


def test_a_contract_that_does_not_fit_is_refused_with_every_finding_and_the_nearest_name(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("aliv", observation="camera")))
    assert not answer.success
    assert "unknown reward term 'aliv'; the engine offers: alive, centred; did you mean 'alive'?" in answer.message
    assert "unknown observation term 'camera'" in answer.message


def test_an_unknown_optional_term_is_a_warning(host: Host) -> None:
    result = host.call(VALIDATE, VALIDATE.request(_contract("alive", optional="touch"))).result
    assert result.is_valid
    assert result.unresolved_optionals == ["touch"]
    assert [warning.term_name for warning in result.warnings] == ["touch"]


def test_an_engine_may_replace_what_the_host_would_answer() -> None:
    class Own(ToyEngine):
        @property
        def services(self) -> Mapping[str, Handler]:
            return {SCHEMA.name: lambda request: "its own"}

    assert Host(Own(1)).call(SCHEMA, GetAgentSchemaRequest()) == "its own"


def test_an_engine_needs_no_close_of_its_own() -> None:
    class Small(Engine):
        spec = ToyEngine(1).spec

        def bind(self, buffers: Buffers) -> None: ...

        def step(self, control: NDArray[np.uint8] | None) -> None: ...

    Host(Small()).close()
