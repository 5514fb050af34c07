"""Driving an engine agent by agent, in typed calls: Step, ResetAgent, NegotiateTask, ReportProgress.

Rule 1: every transport's typed calls come here, so they give equal answers; a client that drives its batch over the hot
        path has the lease, and its Steps are refused as anybody else's would be.
Rule 2: an engine that answers one of these methods itself has the last word.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lucky_transport.agents.agent_resets import SET_RESET_OPTIONS, AgentResets
from lucky_transport.agents.agent_steps import AgentSteps, StepOptions
from lucky_transport.agents.seat import Driver, Seat
from lucky_transport.agents.step_reply import StepReplies
from lucky_transport.agents.terms import NegotiatedTerms
from lucky_transport.call import Call
from lucky_transport.engine import Handler
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

if TYPE_CHECKING:
    from lucky_transport.host.host import Host

__all__ = ["Agents"]

_AGENT = "/hazel.rpc.AgentService/"
_NEGOTIATE = _AGENT + "NegotiateTask"

#: How long a call without a deadline waits for a step of somebody else.
_LONGEST_S = 60.0


class Agents:
    """The agents of one host. `seat`: who drives them. `terms`: what each client negotiated. `progress`: the last
    report of a run, None before the first. `answered`: the methods answered here, which the engine leaves to us.
    """

    def __init__(self, host: Host) -> None:
        self.seat = Seat(host)
        self.steps = AgentSteps(self.seat)
        self.resets = AgentResets(self.seat)
        self.terms = NegotiatedTerms(host.spec)
        self.progress: ProgressReport | None = None
        self.answered: frozenset[str] = frozenset()
        self._replies = StepReplies(self.seat)

    def handlers(self, plain: Mapping[str, Handler]) -> Mapping[str, Callable[[Any, Call], Any]]:
        """Return the handlers to be laid over the engine's `plain` ones, by full method name."""
        own: dict[str, Callable[[Any, Call], Any]] = {
            _AGENT + "Step": self._step,
            _AGENT + "ResetAgent": self._reset,
            _AGENT + "ReportProgress": self._report,
        }
        own = {name: handler for name, handler in own.items() if name not in plain}
        self.answered = frozenset(own)
        if _NEGOTIATE in plain:
            own[_NEGOTIATE] = self._noting_terms(plain[_NEGOTIATE])
        if SET_RESET_OPTIONS.name in plain:
            own[SET_RESET_OPTIONS.name] = self._noting_options(plain[SET_RESET_OPTIONS.name])
        return own

    def _step(self, request: StepRequest, call: Call) -> StepResponse:
        step = self.steps.read(request, request.camera_requests)
        terms = self.terms.of(call.caller)
        answers = self.steps.run([step], Driver(call.caller), _wait_s(call), self._replies, terms, StepOptions())
        return answers[0]

    def _reset(self, request: ResetAgentRequest, call: Call) -> ResetAgentResponse:
        reset = self.resets.read(request.agent_name, request.simulation_contract)
        refusal = self.resets.run([reset], Driver(call.caller), _wait_s(call))[0]
        return ResetAgentResponse(not refusal, refusal)

    def _report(self, report: ProgressReport, call: Call) -> ProgressAck:
        """Keep the report; a run that has finished gives the agents back."""
        self.progress = copy.copy(report)
        if report.finished:
            self.seat.leave(call.caller)
        return ProgressAck(True)

    def _noting_terms(self, negotiate: Handler) -> Callable[[Any, Call], Any]:
        def handle(request: NegotiateTaskRequest, call: Call) -> NegotiateTaskResponse:
            response: NegotiateTaskResponse = negotiate(request)
            if response.success:
                self.terms.note(call.caller, request.contract or TaskContract())
            return response

        return handle

    def _noting_options(self, set_options: Handler) -> Callable[[Any, Call], Any]:
        def handle(request: Any, call: Call) -> Any:
            response = set_options(request)
            if response.success:
                self.resets.forget_contracts()
            return response

        return handle

    def leave(self, caller: str) -> None:
        """`caller` has gone: its seat is free, its terms are forgotten. May wait for its step in progress."""
        self.seat.detach(caller)
        self.terms.forget(caller)


def _wait_s(call: Call) -> float:
    return _LONGEST_S if call.deadline is None else call.deadline.remaining_s
