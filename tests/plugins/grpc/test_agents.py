"""Step and ResetAgent as a legacy client sees them: an agent a call, refusals in the response."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
pytest.importorskip("grpc")

from lucky_transport.engine import HOLD, RESET, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import SetResetOptionsResponse
from lucky_transport.serving import Serving
from lucky_transport.testing.dial import DialEngine
from lucky_transport_grpc.runtime import grpc

Serve = Callable[..., Serving]
ME = (("lucky-client", "me"),)


def _step_count(serving: Serving) -> int:
    engine: Any = serving.host.engine
    return engine.count


class Counting(ToyEngine):
    """Counts its exchanges."""

    count = 0

    def step(self, control: Any) -> None:
        self.count += 1
        super().step(control)


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
    serving = serve(Counting(3))
    reply = stub(serving).call("Step", **fields)
    assert not reply.success
    assert message in reply.message
    assert _step_count(serving) == 0


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


def _contract(rewards: list[str], terminations: list[str]) -> dict[str, Any]:
    return {
        "rewards": {"engine_terms": [{"name": name} for name in rewards]},
        "terminations": {"terms": [{"name": name} for name in terminations]},
    }


def test_a_refused_negotiation_changes_nothing(serve: Serve, stub: Any) -> None:
    raw = stub(serve())
    answer = raw.call("NegotiateTask", ME, contract=_contract(["centered"], []))
    assert not answer.success
    assert "did you mean 'centred'?" in answer.message
    assert sorted(raw.call("Step", ME).reward_signals) == ["alive", "centred"]


def test_a_client_may_ask_for_all_terms_whatever_was_negotiated(serve: Serve, stub: Any) -> None:
    raw = stub(serve())
    raw.call("NegotiateTask", ME, contract=_contract(["alive"], []))
    assert len(raw.call("Step", (*ME, ("lucky-terms", "all"))).reward_signals) == 2


# --- after a reset ---


def test_a_marked_step_after_a_reset_shows_it_without_stepping(serve: Serve, stub: Any) -> None:
    serving = serve(Counting(2))
    raw = stub(serving)
    raw.call("ResetAgent", ME, agent_name="agent_1")
    shown = raw.call("Step", (*ME, ("lucky-reset", "1")), agent_name="agent_1", actions=[1, 1])
    assert _step_count(serving) == 1
    assert shown.success
    assert (shown.reward_signals["alive"], shown.terminated, shown.truncated) == (0, False, False)
    stepped = raw.call("Step", ME, agent_name="agent_1", actions=[1, 1])
    assert _step_count(serving) == 2
    assert list(stepped.observation.observations) != list(shown.observation.observations)


def test_a_mark_without_a_reset_is_refused(serve: Serve, stub: Any, refused: Any) -> None:
    raw = stub(serve())
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
    serving = serve(Counting(2, reset_ticks=reset_ticks))
    raw = stub(serving)
    raw.call("ResetAgent")
    for more in range(2):
        raw.call("Step", actions=actions)
        assert _step_count(serving) == steps + more


# --- repeats ---


def test_a_repeated_number_is_answered_again_and_not_stepped_again(serve: Serve, stub: Any) -> None:
    serving = serve(Counting(1))
    raw = stub(serving)
    first = raw.call("Step", (*ME, ("lucky-seq", "1")), actions=[1, 1]).observation
    again = raw.call("Step", (*ME, ("lucky-seq", "1")), actions=[1, 1]).observation
    assert (list(again.observations), again.frame_number) == (list(first.observations), first.frame_number)
    assert _step_count(serving) == 1
    raw.call("Step", (*ME, ("lucky-seq", "2")), actions=[1, 1])
    assert _step_count(serving) == 2


def test_a_repeated_number_repeats_the_engines_error(serve: Serve, stub: Any, refused: Any) -> None:
    serving = serve(Counting(1, fail_at=1))
    raw = stub(serving)
    for _ in range(2):
        error = refused(raw.call, "Step", (*ME, ("lucky-seq", "1")))
        assert error.code() is grpc.StatusCode.INTERNAL
        assert "ArithmeticError" in error.details()
    assert _step_count(serving) == 1


def test_an_engine_without_hold_cannot_step_one_agent_of_several(serve: Serve, stub: Any, refused: Any) -> None:
    raw = stub(serve(num_envs=2, hold=False))
    error = refused(raw.call, "Step", ME, agent_name="agent_0")
    assert "cannot hold envs while others step" in error.details()


# --- resets ---


class Noting(ToyEngine):
    """Notes the control bytes of each exchange and the contracts between them."""

    def __init__(self, num_envs: int, *, takes_contracts: bool = True) -> None:
        self.noted: list[Any] = []
        self._takes_contracts = takes_contracts
        super().__init__(num_envs)

    @property
    def services(self) -> Mapping[str, Handler]:
        if not self._takes_contracts:
            return {}
        return {"/lucky_transport.v1.BatchService/SetResetOptions": self._note}

    def _note(self, request: Any) -> SetResetOptionsResponse:
        self.noted.append(round(request.contract.joint_position_noise, 3))
        return SetResetOptionsResponse(True)

    def step(self, control: Any) -> None:
        self.noted.append(None if control is None else control.tolist())
        super().step(control)


def test_a_reset_happens_at_once_for_its_agent_alone(serve: Serve, stub: Any) -> None:
    engine = Noting(3)
    reply = stub(serve(engine)).call("ResetAgent", agent_name="agent_1")
    assert (reply.success, reply.message) == (True, "")
    assert engine.noted == [[HOLD, RESET, HOLD]]


def test_an_empty_contract_asks_for_nothing(serve: Serve, stub: Any) -> None:
    engine = Noting(1, takes_contracts=False)
    assert stub(serve(engine)).call("ResetAgent", simulation_contract={}).success
    assert engine.noted == [[RESET]]


def test_an_engine_without_reset_options_refuses_a_contract(serve: Serve, stub: Any) -> None:
    engine = Noting(1, takes_contracts=False)
    reply = stub(serve(engine)).call("ResetAgent", simulation_contract={"terrain_type": "rough"})
    assert not reply.success
    assert "takes no simulation contract" in reply.message
    assert engine.noted == []


def test_an_engine_that_fails_in_a_reset_is_a_status(serve: Serve, stub: Any, refused: Any) -> None:
    error = refused(stub(serve(fail_at=1)).call, "ResetAgent")
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "toy engine was asked to fail at step 1" in error.details()
