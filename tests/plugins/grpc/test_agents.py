"""The batch service does each exchange of its spec once; an agent of the legacy service is stepped and reset alone."""

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport.engine import RESET
from lucky_transport.testing.stepping_contract import DialEngine
from tests.plugins.grpc.conftest import Serve
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import until

SERVICE = "/lucky_transport.v1.BatchService/"
EXCHANGE = SERVICE + "Exchange"
ME = (("lucky-client", "me"),)
ZEROS = bytes(2 * 2 * 4)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"actions": ZEROS[1:]}, "actions: 15 bytes, expected 16 (float32 (2, 2))"),
        ({"actions": b""}, "actions: 0 bytes, expected 16"),
        ({"actions": ZEROS + b"\0"}, "actions: 17 bytes, expected 16"),
        ({"actions": np.array([0, 0, np.nan, 0], np.float32).tobytes()}, "actions are not finite: nan at [1, 0]"),
        ({"actions": np.array([0, -np.inf, 0, 0], np.float32).tobytes()}, "actions are not finite: -inf at [0, 1]"),
        ({"control": b"\0"}, "control: 1 bytes, expected 2"),
        ({"control": b"\0\10"}, "control byte 8: expected 0 to 7"),
        ({"action_seq": 0}, "exchanges are numbered from 1"),
    ],
)
def test_bytes_that_do_not_fit_the_spec_are_refused_and_nothing_is_stepped(
    raw: Any, fields: dict[str, Any], text: str, refused: Any
) -> None:
    error = refused(raw.call, EXCHANGE, ME, **{"action_seq": 1, "actions": ZEROS} | fields)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in error.details()
    assert raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS).frame_seq == 1


def test_every_combination_of_the_three_bits_is_a_control_byte(raw: Any) -> None:
    for byte in range(8):
        reply = raw.call(EXCHANGE, ME, action_seq=byte + 1, actions=ZEROS, control=bytes([byte, 0]))
        assert reply.frame_seq == byte + 1


def test_holding_is_refused_where_the_engine_cannot(serve: Serve, stub: Any, refused: Any) -> None:
    error = refused(
        stub(serve(num_envs=2, hold=False)).call, EXCHANGE, ME, action_seq=1, actions=ZEROS, control=b"\0\2"
    )
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_repeated_exchange_is_answered_again_and_not_done_again(raw: Any) -> None:
    first = raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS)
    assert raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS) == first
    assert raw.call(EXCHANGE, ME, action_seq=8, actions=ZEROS).frame_seq == first.frame_seq + 1


@pytest.mark.parametrize("seq", [5, 6, 9, 2**63])
def test_a_number_out_of_order_is_refused(raw: Any, seq: int, refused: Any) -> None:
    raw.call(EXCHANGE, ME, action_seq=7, actions=ZEROS)
    error = refused(raw.call, EXCHANGE, ME, action_seq=seq, actions=ZEROS)
    assert f"exchange {seq} after exchange 7: expected 8" in error.details()


def test_a_client_that_cannot_be_told_from_another_is_its_address(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    stub(serving).call(EXCHANGE, action_seq=1, actions=ZEROS)
    assert serving.host.driver.startswith("grpc client ipv4:127.0.0.1:")


def _attach(raw: Any, name: str) -> Any:
    call = raw.stream(SERVICE + "Attach", (("lucky-client", name),), client_id=name, pid=4321)
    assert next(call).engine_state == "ready"
    return call


def test_the_end_of_an_attachment_releases_the_lease(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    raw = stub(serving)
    attachment = _attach(raw, "me")
    raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS)
    assert serving.host.driver == "grpc client of pid 4321 (me)"
    attachment.cancel()
    until(lambda: not serving.host.driver)


def test_the_end_of_another_clients_attachment_releases_nothing(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    raw, other = stub(serving), stub(serving)
    attachment = _attach(raw, "me")
    watching = _attach(other, "you")
    raw.call(EXCHANGE, ME, action_seq=1, actions=ZEROS)
    watching.cancel()
    assert raw.call(EXCHANGE, ME, action_seq=2, actions=ZEROS).frame_seq == 2
    assert serving.host.driver == "grpc client of pid 4321 (me)"
    attachment.cancel()


def test_attached_clients_are_told_that_the_engine_closes(serve: Serve, stub: Any) -> None:
    serving = serve(num_envs=2)
    attachment = _attach(stub(serving), "me")
    serving.stop()
    assert [event.engine_state for event in attachment] == ["closing"]


def test_a_step_answers_with_the_whole_frame_of_its_agent(serve: Serve, stub: Any) -> None:
    raw = stub(serve(num_envs=2, obs_size=5, act_size=2))
    before_ms = time.time_ns() // 1_000_000
    reply = raw.call("Step", agent_name="agent_1", actions=[0.25, -0.5])
    frame = reply.observation
    assert reply.success
    assert len(frame.observations) == 5
    assert list(frame.actions) == [0.25, -0.5]
    assert frame.agent_name == "agent_1"
    assert before_ms <= frame.timestamp_ms <= time.time_ns() // 1_000_000
    assert dict(reply.reward_signals).keys() == {"alive", "centred"}
    assert dict(reply.termination_flags) == {"out_of_range": False, "time_out": False}
    assert reply.reward_signals["alive"] == 1.0


def _group(indices: list[int], value: float = 1.0) -> dict[str, Any]:
    return {"group_name": "legs", "actions": [value], "action_indices": indices}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"agent_name": "robot"}, "no agent 'robot'; there are agent_0 to agent_2"),
        ({"actions": [1.0] * 3}, "actions have shape (1, 3), expected (1, 2): axis 1 has 3 instead of 2"),
        ({"agent_name": "agent_1", "actions": [0, float("nan")]}, "are not finite: nan at [1, 1] (env 1); nothing was"),
        ({"camera_requests": [{"name": "front"}]}, "in-step cameras are not served yet (1 requested); send the Step"),
        ({"action_groups": [_group([0, 1])]}, "action group 'legs' has 1 actions for 2 indices"),
        ({"action_groups": [_group([2])]}, "action group 'legs': index 2, expected 0 to 1"),
        ({"action_groups": [_group([1], float("inf"))]}, "actions are not finite: inf at [0, 1] (env 0)"),
    ],
)
def test_a_wrong_step_says_what_is_wrong_and_moves_nothing(
    serve: Serve, stub: Any, fields: dict[str, Any], message: str
) -> None:
    steps: list[Any] = []
    reply = stub(serve(ScriptedEngine(3, on_step=steps.append))).call("Step", **fields)
    assert not reply.success
    assert message in reply.message
    assert steps == []


def test_action_groups_are_laid_over_the_actions(serve: Serve, stub: Any) -> None:
    groups = [
        {"group_name": "a", "actions": [0.5, 0.25], "action_indices": [3, 0]},
        {"group_name": "b", "actions": [-1], "action_indices": [1]},
    ]
    raw = stub(serve(act_size=4))
    assert list(raw.call("Step", action_groups=groups).observation.actions) == [0.25, -1, 0, 0.5]
    reply = raw.call("Step", actions=[1, 1, 1, 1], action_groups=groups)
    assert list(reply.observation.actions) == [0.25, -1, 1, 0.5]


def test_discrete_actions_travel_as_floats_and_must_be_whole(serve: Serve, stub: Any) -> None:
    raw = stub(serve(DialEngine(2)))
    assert list(raw.call("Step", actions=[2]).observation.observations) == [0, 1, 1, 255]
    reply = raw.call("Step", actions=[1.5])
    assert not reply.success
    assert "expected integers (int64): the action space is discrete" in reply.message
    assert "do not fit into int64" in raw.call("Step", actions=[1e30]).message


# --- terms ---


def test_a_step_carries_the_terms_of_the_last_contract_that_fitted_or_all_that_it_asks_for(raw: Any) -> None:
    said: list[str] = []
    for term in ("alive", "centered"):
        contract = {"rewards": {"engine_terms": [{"name": term}]}}
        said.append(raw.call("NegotiateTask", ME, contract=contract).message)
    assert "did you mean 'centred'?" in said[1]
    assert list(raw.call("Step", ME).reward_signals) == ["alive"]
    assert len(raw.call("Step", (*ME, ("lucky-terms", "all"))).reward_signals) == 2


# --- after a reset ---


def test_a_marked_step_after_a_reset_shows_it_without_stepping(serve: Serve, stub: Any) -> None:
    steps: list[Any] = []
    raw = stub(serve(ScriptedEngine(2, on_step=steps.append)))
    raw.call("ResetAgent", ME, agent_name="agent_1")
    shown = raw.call("Step", (*ME, ("lucky-reset", "1")), agent_name="agent_1", actions=[1, 1])
    assert len(steps) == 1
    assert shown.success
    assert (shown.reward_signals["alive"], shown.terminated, shown.truncated) == (0, False, False)
    stepped = raw.call("Step", ME, agent_name="agent_1", actions=[1, 1])
    assert len(steps) == 2
    assert list(stepped.observation.observations) != list(shown.observation.observations)


def test_a_mark_without_a_reset_is_refused(raw: Any, refused: Any) -> None:
    raw.call("Step", ME)
    error = refused(raw.call, "Step", (*ME, ("lucky-reset", "1")))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "agent_0 was not reset" in error.details()


@pytest.mark.parametrize(
    ("reset_ticks", "actions", "steps"), [(1, [], 1), (1, [0.0, 0.0], 1), (1, [0.0, 0.1], 2), (0, [0.0, 0.0], 2)]
)
def test_the_zero_step_after_a_reset_that_ticks_is_that_tick(
    serve: Serve, stub: Any, reset_ticks: int, actions: list[float], steps: int
) -> None:
    done: list[Any] = []
    raw = stub(serve(ScriptedEngine(2, on_step=done.append, reset_ticks=reset_ticks)))
    raw.call("ResetAgent")
    for more in range(2):
        raw.call("Step", actions=actions)
        assert len(done) == steps + more


# --- repeats ---


def test_a_repeated_number_is_answered_again_and_not_stepped_again(serve: Serve, stub: Any) -> None:
    steps: list[Any] = []
    raw = stub(serve(ScriptedEngine(on_step=steps.append)))
    first = raw.call("Step", (*ME, ("lucky-seq", "1")), actions=[1, 1]).observation
    again = raw.call("Step", (*ME, ("lucky-seq", "1")), actions=[1, 1]).observation
    assert (list(again.observations), again.frame_number) == (list(first.observations), first.frame_number)
    assert len(steps) == 1
    raw.call("Step", (*ME, ("lucky-seq", "2")), actions=[1, 1])
    assert len(steps) == 2


def test_a_repeated_number_repeats_the_engines_error(serve: Serve, stub: Any, refused: Any) -> None:
    steps: list[Any] = []
    raw = stub(serve(ScriptedEngine(on_step=steps.append, fail_at=1)))
    for _ in range(2):
        error = refused(raw.call, "Step", (*ME, ("lucky-seq", "1")))
        assert error.code() is grpc.StatusCode.INTERNAL
        assert "ArithmeticError" in error.details()
    assert len(steps) == 1


def test_an_engine_without_hold_cannot_step_one_agent_of_several(serve: Serve, stub: Any, refused: Any) -> None:
    raw = stub(serve(num_envs=2, hold=False))
    error = refused(raw.call, "Step", ME, agent_name="agent_0")
    assert "cannot hold envs while others step" in error.details()


# --- resets ---


class Plain(ScriptedEngine):
    """Takes no reset options."""

    @property
    def services(self) -> dict[str, Any]:
        return {}


def test_an_engine_without_reset_options_refuses_a_contract_that_asks_for_something(serve: Serve, stub: Any) -> None:
    steps: list[Any] = []
    raw = stub(serve(Plain(on_step=lambda control: steps.append(control.tolist()))))
    reply = raw.call("ResetAgent", simulation_contract={"terrain_type": "rough"})
    assert not reply.success
    assert "takes no simulation contract" in reply.message
    assert steps == []
    assert raw.call("ResetAgent", simulation_contract={}).success
    assert steps == [[RESET]]


def test_an_engine_that_fails_in_a_reset_is_a_status(serve: Serve, stub: Any, refused: Any) -> None:
    error = refused(stub(serve(fail_at=1)).call, "ResetAgent")
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "toy engine was asked to fail at step 1" in error.details()
