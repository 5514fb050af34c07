"""The legacy ResetAgent: one agent per call, at once.

Rule 1: a call resets its agent in one exchange with all other envs held; calls of one batch become one exchange.
Rule 2: a SimulationContract reaches the engine before the reset it belongs to; agents with different contracts are
reset one contract after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.engine import RESET
from lucky_transport.messages.agent import SimulationContract
from lucky_transport.messages.batch import SetResetOptionsRequest
from lucky_transport.messages.methods import method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import decode
from lucky_transport_grpc.gathering import Gathering
from lucky_transport_grpc.seat import Seat, only
from lucky_transport_grpc.step_request import env_of

__all__ = ["AgentResets"]

_SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")


@dataclass(frozen=True, slots=True)
class _Reset:
    """One agent's reset; `contract` are the bytes of its SimulationContract, b"" when it asks for nothing."""

    env: int
    contract: bytes = b""
    refusal: str = ""


class AgentResets:
    """The ResetAgent of one server."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._response: Any = _pb.message_class("hazel.rpc.ResetAgentResponse")
        self._contract: Any = _pb.message_class("hazel.rpc.SimulationContract")
        self.gathering: Gathering[_Reset, str] = Gathering("ResetAgent")

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one ResetAgent; a refusal is said in the response, as luckyrobots expects it."""
        try:
            contract = request.simulation_contract.SerializeToString(deterministic=True)
            reset = _Reset(env_of(self._seat.spec, request.agent_name), contract)
        except ValueError as error:
            reset = _Reset(0, refusal=str(error))
        if caller.batch:
            refusal = self.gathering.join(reset, caller, lambda resets: self._run(resets, caller))
        else:
            refusal = self._run([reset], caller)[0]
        return self._response(success=not refusal, message=refusal)

    def _run(self, resets: Sequence[_Reset], caller: Caller) -> list[str]:
        """Reset all and return why each was not, "" where it was."""
        groups: dict[bytes, list[_Reset]] = {}
        for reset in resets:
            if not reset.refusal:
                groups.setdefault(reset.contract, []).append(reset)
        refusals: dict[bytes, str] = {}
        with self._seat.driven_by(caller.key, caller.timeout_s):
            for contract, members in groups.items():
                refusals[contract] = self._apply(contract) if contract else ""
                if not refusals[contract]:
                    envs = [reset.env for reset in members]
                    self._seat.exchange(only(self._seat.spec, envs, RESET))
                    self._seat.fresh[envs] = True
        return [reset.refusal or refusals[reset.contract] for reset in resets]

    def _apply(self, contract: bytes) -> str:
        """Hand a contract to the engine; return why it was refused, "" if it was not."""
        host = self._seat.host
        if not host.implements(_SET_RESET_OPTIONS):
            return f"engine {self._seat.spec.engine!r} takes no simulation contract; reset without one"
        message = decode(self._contract.FromString(contract), SimulationContract)
        answer = host.call(_SET_RESET_OPTIONS, SetResetOptionsRequest(message))
        return "" if answer.success else answer.message or "the engine refused the simulation contract"
