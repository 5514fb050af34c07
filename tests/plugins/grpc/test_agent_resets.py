"""ResetAgent as a legacy client sees it: at once, one agent, with its simulation contract before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import HOLD, RESET, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import SetResetOptionsResponse
from lucky_transport.serving import Serving
from lucky_transport_grpc.runtime import grpc

Serve = Callable[..., Serving]
ME = (("lucky-client", "me"),)


class Noting(ToyEngine):
    """Notes the control bytes of each exchange and the contracts between them."""

    def __init__(self, num_envs: int = 1, *, refusal: str | None = "", **options: Any) -> None:
        self.noted: list[Any] = []
        self.refusal = refusal
        super().__init__(num_envs, **options)

    @property
    def services(self) -> Mapping[str, Handler]:
        if self.refusal is None:
            return {}
        return {"/lucky_transport.v1.BatchService/SetResetOptions": self._note}

    def _note(self, request: Any) -> SetResetOptionsResponse:
        self.noted.append(round(request.contract.joint_position_noise, 3))
        return SetResetOptionsResponse(not self.refusal, self.refusal or "")

    def step(self, control: Any) -> None:
        self.noted.append(None if control is None else control.tolist())
        super().step(control)


def test_a_reset_happens_at_once_for_its_agent_alone(serve: Serve, stub: Any) -> None:
    engine = Noting(3)
    reply = stub(serve(engine)).call("ResetAgent", agent_name="agent_1")
    assert (reply.success, reply.message) == (True, "")
    assert engine.noted == [[HOLD, RESET, HOLD]]


def test_an_unknown_agent_is_refused_in_the_response(serve: Serve, stub: Any) -> None:
    engine = Noting(1)
    reply = stub(serve(engine)).call("ResetAgent", agent_name="agent_1")
    assert (reply.success, reply.message) == (False, "no agent 'agent_1'; there are agent_0")
    assert engine.noted == []


def test_a_contract_reaches_the_engine_before_its_reset(serve: Serve, stub: Any) -> None:
    engine = Noting(1)
    contract = {"joint_position_noise": 0.25}
    assert stub(serve(engine)).call("ResetAgent", simulation_contract=contract).success
    assert engine.noted == [0.25, [RESET]]


def test_an_empty_contract_asks_for_nothing(serve: Serve, stub: Any) -> None:
    engine = Noting(1, refusal=None)
    assert stub(serve(engine)).call("ResetAgent", simulation_contract={}).success
    assert engine.noted == [[RESET]]


def test_a_contract_the_engine_refuses_resets_nothing_and_says_why(serve: Serve, stub: Any) -> None:
    engine = Noting(1, refusal="no such noise")
    reply = stub(serve(engine)).call("ResetAgent", simulation_contract={"joint_position_noise": 0.5})
    assert (reply.success, reply.message) == (False, "no such noise")
    assert engine.noted == [0.5]


def test_an_engine_without_reset_options_refuses_a_contract(serve: Serve, stub: Any) -> None:
    engine = Noting(1, refusal=None)
    reply = stub(serve(engine)).call("ResetAgent", simulation_contract={"terrain_type": "rough"})
    assert not reply.success
    assert "takes no simulation contract" in reply.message
    assert engine.noted == []


def test_the_resets_of_a_batch_are_one_exchange(serve: Serve, stub: Any) -> None:
    engine = Noting(4)
    raw = stub(serve(engine))
    batch = (*ME, ("lucky-batch", "3"))
    calls = [raw.start("ResetAgent", batch, agent_name=f"agent_{i}") for i in (3, 0, 1)]
    assert all(call.result().success for call in calls)
    assert engine.noted == [[RESET, RESET, HOLD, RESET]]


def test_a_batch_with_two_contracts_is_reset_one_contract_after_the_other(serve: Serve, stub: Any) -> None:
    engine = Noting(3)
    raw = stub(serve(engine))
    batch = (*ME, ("lucky-batch", "3"))
    noises = (0.25, 0.75, 0.25)
    calls = [
        raw.start("ResetAgent", batch, agent_name=f"agent_{i}", simulation_contract={"joint_position_noise": noise})
        for i, noise in enumerate(noises)
    ]
    assert all(call.result().success for call in calls)
    pairs = dict(zip(engine.noted[::2], engine.noted[1::2], strict=True))
    assert pairs == {0.25: [RESET, HOLD, RESET], 0.75: [HOLD, RESET, HOLD]}


def test_a_reset_env_shows_no_outcome(serve: Serve, stub: Any) -> None:
    raw = stub(serve(episode_steps=1, reset_ticks=1))
    assert raw.call("Step").truncated
    raw.call("ResetAgent")
    shown = raw.call("Step")
    assert (shown.truncated, shown.terminated) == (False, False)
    assert set(shown.reward_signals.values()) == {0.0}
    assert np.any(list(shown.observation.observations))


def test_an_engine_that_fails_in_a_reset_is_a_status(serve: Serve, stub: Any, refused: Any) -> None:
    error = refused(stub(serve(fail_at=1)).call, "ResetAgent")
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "toy engine was asked to fail at step 1" in error.details()
