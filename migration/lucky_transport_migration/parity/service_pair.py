"""Two instances of a server of a team's own, asked the same, their answers compared."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import AtCall, Difference, LocatedDifference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import ASPECTS, compare, differing_at
from lucky_transport_migration.evidence.outcome import CONTROL, CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand

__all__ = ["AskedCall", "ServerPair"]

#: A deadline that is over: gRPC rounds one of this moment up, and a call may be answered in time.
_OVER_S = -1.0


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that was made on both, and what it showed."""

    call: ServiceCall
    evidence: Evidence

    @property
    def differs(self) -> bool:
        """True where both did not answer alike."""
        return self.evidence.verdict in (DIFFERENT, FAILED)

    @property
    def is_gone(self) -> bool:
        """True where the connection to one of them was lost."""
        sides = (self.evidence.primary, self.evidence.shadow)
        return any(one is not None and one.local and one.code == "UNAVAILABLE" for one in sides)

    def located(self, number: int, what: str) -> LocatedDifference:
        """Return the difference as a report shows it."""
        (left, mine), (right, other) = self.evidence.values.items()
        found = Difference(self.evidence.aspect, self.evidence.where, mine, other)
        return LocatedDifference(found, (left, right), AtCall(self.evidence.method, number, what, self.call.text))


@dataclass(slots=True)
class ServerPair:
    """A fresh server on a port and another one over the transport `other`, from `with` on; it ends them."""

    command: ServerCommand
    other: str
    rules: ComparisonRules
    deadline_s: float
    _servers: tuple[RunningServer, ...] = ()
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            names = (CONTROL, self.other)
            self._servers = tuple(stack.enter_context(RunningServer(self.command, name)) for name in names)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    @property
    def endpoint(self) -> str:
        """Where the one on a port answers."""
        return self._servers[0].endpoint

    def ended(self, within_s: float = 0.0) -> str:
        """Return how one of them ended; "" while both run."""
        return next(filter(None, (server.exit_report(within_s) for server in self._servers)), "")

    def ask(self, row: ServiceMethod, call: ServiceCall, *, reverse: bool) -> AskedCall:
        """Ask both, the second one first with `reverse`, which is fair to both in turns, and compare."""
        requests = call.requests

        def ask(server: RunningServer) -> CallOutcome:
            timeout_s = _OVER_S if call.is_late else self.deadline_s if call.timeout_s is None else call.timeout_s
            given = {"metadata": call.metadata, "cancel_after": call.cancel_after}
            return server.caller.ask(row, requests, timeout_s=timeout_s, **given)

        outcomes = [ask(server) for server in (self._servers[::-1] if reverse else self._servers)]
        control, other = outcomes[::-1] if reverse else outcomes
        decision = Decision(control.transport, other.transport, "parity", row.effect)
        request: Any = requests if row.requests_stream else requests[0]
        early = control.code == other.code == CANCELLED and call.cancel_after is not None
        options = CallOptions(without=call.without, answered=call.answered)
        made = Comparison(row.name, decision, control, other, request, ended_early=early, options=options)
        evidence = compare(made, self.rules, kind="parity", method=row)
        if call.is_late:
            evidence = _late(evidence)
        return AskedCall(call, replace(evidence, at=moment(time.time())))


def _late(evidence: Evidence) -> Evidence:
    """Return what a call shows whose deadline is over: how it ended, and nothing else."""
    assert evidence.shadow is not None
    mine, other = evidence.primary.code, evidence.shadow.code
    if mine == other:
        left_out = {name: "its deadline was over" for name in ASPECTS if name != "status"}
        return replace(evidence, verdict=EQUAL, why="", aspect="", where="", values={}, left_out=left_out)
    return differing_at(Difference("code", "code", mine, other), replace(evidence, why=""))
