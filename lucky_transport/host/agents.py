"""Driving an engine agent by agent, in typed calls: Step, ResetAgent, NegotiateTask, ReportProgress.

Every transport's typed calls come here, so they give equal answers. A client that drives its batch over the hot path
has the lease, and its Steps are refused like any other client's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport.call import Call
from lucky_transport.engine import RESET, CallHandler
from lucky_transport.engine_options import requested_options
from lucky_transport.host.agent_step import AgentSteps, NegotiatedTerms, StepOptions, StepResponses, env_of
from lucky_transport.host.driver_lease import DrivenHost, Driver, DriverLease, only
from lucky_transport.messages import (
    NegotiateTaskRequest,
    NegotiateTaskResponse,
    ProgressAck,
    ProgressReport,
    ResetAgentRequest,
    ResetAgentResponse,
    SetResetOptionsRequest,
    SimulationContract,
    StepRequest,
    StepResponse,
    TaskContract,
)
from lucky_transport.messages.methods import method

_AGENT = "/hazel.rpc.AgentService/"
_NEGOTIATE = _AGENT + "NegotiateTask"
_SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")

#: How long a call without a deadline waits for another client's step.
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class AgentReset:
    """One agent's reset; `contract` is None when it asks for nothing, `refusal` is why it is refused."""

    env: int
    contract: SimulationContract | None = None
    refusal: str = ""


class AgentResets:
    """The ResetAgents of one lease: each resets its agent in one exchange with all other envs held.

    A SimulationContract reaches the engine before the reset it belongs to. It holds for its agent's resets until
    another one is given, its client leaves, or a client sets the engine's reset options; other agents follow the
    engine's own.
    """

    def __init__(self, lease: DriverLease) -> None:
        self._lease = lease
        self._given: dict[int, tuple[str, SimulationContract]] = {}  # by env: the client's key, and what it gave
        self._staged: SimulationContract | None = None  # the contract that the engine follows because of us
        self._staging = False
        self._leases = 0  # of which lease `_given` is

    def read(self, agent_name: str, contract: SimulationContract | None) -> AgentReset:
        """Return what a ResetAgentRequest asks for; never raises for what is wrong with it."""
        try:
            env = env_of(self._lease.spec, agent_name)
        except ValueError as error:
            return AgentReset(0, refusal=str(error))
        return AgentReset(env, contract if contract != SimulationContract() else None)

    def run(self, reset: AgentReset, driver: Driver, timeout_s: float) -> str:
        """Reset the agent and return why it was not, "" where it was.

        Raises Busy, PeerTimeout, LocalProtocolError (no hold) and what the engine's step raises.
        """
        if reset.refusal:
            return reset.refusal

        def act() -> str:
            if self._leases != self._lease.leases:
                self._given.clear()
                self._leases = self._lease.leases
            self._given = {env: given for env, given in self._given.items() if self._lease.has(given[0])}
            contract = copy.deepcopy(reset.contract)  # the caller may change its message later
            if contract is None and reset.env in self._given:
                contract = self._given[reset.env][1]
            refusal = self._stage(contract)
            if not refusal:
                self._lease.exchange(only(self._lease.spec, [reset.env], RESET))
                self._lease.fresh[reset.env] = True
                if reset.contract is not None and contract is not None:
                    self._given[reset.env] = (driver.key, contract)
            return refusal

        return self._lease.run(driver, timeout_s, act)

    def forget_contracts(self) -> None:
        """Let the engine's own reset options hold for every agent: a client has set them."""
        if self._staging:
            return
        self._given.clear()
        self._staged = None

    def _stage(self, contract: SimulationContract | None) -> str:
        """Have the engine follow a contract, its own for None; return why it does not, "" if it does."""
        if contract is None and self._staged is None:
            return ""
        host = self._lease.host
        if not host.implements(_SET_RESET_OPTIONS):
            return f"engine {self._lease.spec.engine!r} takes no simulation contract; reset without one"
        self._staging = True
        try:
            answer = host.call(_SET_RESET_OPTIONS, SetResetOptionsRequest(contract))
        finally:
            self._staging = False
        if not answer.success:
            return answer.message or "the engine refused the simulation contract"
        self._staged = contract
        return ""


class Agents:
    """The agents of one host.

    lease: held by the clients that step them. terms: what each client negotiated. progress: the last report of a run,
    None before the first. answered: the methods that are answered here; an engine may answer any of them itself.
    """

    def __init__(self, host: DrivenHost) -> None:
        self.lease = DriverLease(host, shared=True)
        self.steps = AgentSteps(self.lease)
        self.resets = AgentResets(self.lease)
        self.terms = NegotiatedTerms(host.spec)
        self.progress: ProgressReport | None = None
        self.answered: frozenset[str] = frozenset()
        self._responses = StepResponses(self.lease)

    def handlers(self, engine: Mapping[str, CallHandler]) -> Mapping[str, CallHandler]:
        """Return the handlers that override those of the engine, by full method name."""
        own: dict[str, CallHandler] = {
            _AGENT + "Step": self._step,
            _AGENT + "ResetAgent": self._reset,
            _AGENT + "ReportProgress": self._report,
        }
        own = {name: handler for name, handler in own.items() if name not in engine}
        self.answered = frozenset(own)
        if _NEGOTIATE in engine:
            own[_NEGOTIATE] = self._noting_terms(engine[_NEGOTIATE])
        if _SET_RESET_OPTIONS.name in engine:
            own[_SET_RESET_OPTIONS.name] = self._noting_options(engine[_SET_RESET_OPTIONS.name])
        return own

    def _step(self, request: StepRequest, call: Call) -> StepResponse:
        step = self.steps.read(request, request.camera_requests)
        terms = self.terms.of(call.caller)
        return self.steps.run(step, _driver(call), _wait_s(call), self._responses, terms, StepOptions())

    def _reset(self, request: ResetAgentRequest, call: Call) -> ResetAgentResponse:
        reset = self.resets.read(request.agent_name, request.simulation_contract)
        refusal = self.resets.run(reset, _driver(call), _wait_s(call))
        return ResetAgentResponse(not refusal, refusal)

    def _report(self, report: ProgressReport, call: Call) -> ProgressAck:
        """Keep the report; a run that has finished gives the lease back."""
        self.progress = copy.copy(report)
        if report.finished:
            self.lease.leave(call.caller)
        return ProgressAck(True)

    def _noting_terms(self, negotiate: CallHandler) -> CallHandler:
        def handle(request: NegotiateTaskRequest, call: Call) -> NegotiateTaskResponse:
            response: NegotiateTaskResponse = negotiate(request, call)
            if response.success:
                self.terms.note(call.caller, request.contract or TaskContract())
            return response

        return handle

    def _noting_options(self, set_options: CallHandler) -> CallHandler:
        def handle(request: Any, call: Call) -> Any:
            requested_options(request)  # every engine's are checked here, in the same words
            response = set_options(request, call)
            if response.success:
                self.resets.forget_contracts()
            return response

        return handle

    def leave(self, caller: str) -> None:
        """Free the lease of a client that has gone and forget its terms. May wait for its step in progress."""
        self.lease.detach(caller)
        self.terms.forget(caller)


def _driver(call: Call) -> Driver:
    return Driver(call.caller, is_over=lambda: call.is_over)


def _wait_s(call: Call) -> float:
    return _LONGEST_S if call.deadline is None else call.deadline.remaining_s
