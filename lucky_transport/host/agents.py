"""Driving an engine agent by agent, in typed calls: Step, ResetAgent, NegotiateTask, ReportProgress.

Every transport's typed calls come here, so they give equal answers. A client that drives its batch over the hot path
has the lease, and its Steps are refused like any other client's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lucky_transport.call import Call
from lucky_transport.engine import CallHandler
from lucky_transport.engine_options import requested_options
from lucky_transport.host.agent_reset import SET_RESET_OPTIONS, AgentResets
from lucky_transport.host.agent_step import AgentSteps, StepOptions, StepResponses
from lucky_transport.host.driver_lease import DrivenHost, Driver, DriverLease
from lucky_transport.host.terms import NegotiatedTerms
from lucky_transport.messages import (
    NegotiateTaskRequest,
    NegotiateTaskResponse,
    ProgressAck,
    ProgressReport,
    ResetAgentRequest,
    ResetAgentResponse,
    StepRequest,
    StepResponse,
    TaskContract,
)

_AGENT = "/hazel.rpc.AgentService/"
_NEGOTIATE = _AGENT + "NegotiateTask"

#: How long a call without a deadline waits for another client's step.
_LONGEST_S = 60.0


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
        if SET_RESET_OPTIONS.name in engine:
            own[SET_RESET_OPTIONS.name] = self._noting_options(engine[SET_RESET_OPTIONS.name])
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
