"""Two instances of a server of a team's own, asked the same, their answers compared."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import ASPECTS, compare, differing_at
from lucky_transport_migration.evidence.outcome import CONTROL, CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import EQUAL, PROOF, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED, ServiceCaller
from lucky_transport_migration.parity.parity_evidence import AskedCall
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand

#: A deadline that is over, for gRPC rounds one of this moment up, and a call may be answered in time; and a long one.
_OVER_S, _LONG_S = -1.0, 30 * 86400.0
#: A short deadline is at least so many seconds, and so many times as long as any answer of its method took.
_SHORT_S, _SHORT_TIMES = 2.0, 20
#: So long a call is held open over gRPC for an end that a server sends before the half-close.
_HELD_S = 0.5
#: A method that so many times came to no end within its deadline, as an endless stream does, has a tenth of it from
#: then on, and is left after so many items.
_WAITS, _FEW = 3, 3
#: A call is cancelled after so many seconds, when a handler of more than that has surely begun. Then all rest for so
#: many: a handler that runs on ends meanwhile.
_CANCELLED_S, _REST_S = 0.1, 3.0
#: How often two servers on ports are asked the same before they count as answering alike.
ROUNDS = 5

RowCall = tuple[ServiceMethod, ServiceCall]


@dataclass(slots=True)
class ServerPair:
    """A fresh server on a port and another one over the transport `other`, from `with` on; it ends them."""

    command: ServerCommand
    other: str
    rules: ComparisonRules
    deadline_s: float
    _servers: tuple[RunningServer, ...] = ()
    _stack: ExitStack = field(default_factory=ExitStack)
    _waited: Counter[str] = field(default_factory=Counter[str])
    _slowest_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

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

    def ask(self, row: ServiceMethod, call: ServiceCall, *, reverse: bool = False, client: int = 0) -> AskedCall:
        """Ask both, the second one first with `reverse`, which is fair to both in turns, and compare. client: of
        those of the servers.

        A held call whose end does not come from the first one is not held at the other.
        """
        if row.stream is not None and self._waited[row.name] >= _WAITS and call.cancel_after is None:
            call = replace(call, cancel_after=_FEW)
        servers = self._servers[::-1] if reverse else self._servers
        outcomes: list[CallOutcome] = []
        for server in servers:
            is_late = call.ends == "held" and any(one.is_local for one in outcomes)
            outcomes.append(self._alone(server.clients[client], row, replace(call, ends="") if is_late else call))
        took_s = min(one.took_us for one in outcomes) / 1e6
        if took_s < self._patience_s(row):
            self._slowest_s[row.name] = max(self._slowest_s[row.name], took_s)
        else:
            self._waited[row.name] += 1
        return self._compared(row, call, *(outcomes[::-1] if reverse else outcomes))

    def ask_at_once(self, calls: Sequence[RowCall], *, clients: int) -> list[AskedCall]:
        """Ask both all the calls at once, from one client or from two in turns, and compare call by call.

        Two servers on ports are asked one by one too, one of them backwards, as calls at once may come in any order.
        """

        def ask(server: RunningServer) -> list[CallOutcome]:
            callers = [server.clients[at % clients] for at in range(len(calls))]
            with ThreadPoolExecutor(len(calls)) as pool:
                return list(pool.map(self._alone, callers, *zip(*calls, strict=True)))

        found = self._each(calls, *map(ask, self._servers))
        if self.other != CONTROL:
            return found
        one, other = (server.clients[0] for server in self._servers)
        ahead = [self._alone(one, *call) for call in calls]
        back = [self._alone(other, *call) for call in calls[::-1]]
        return found + self._each(calls, ahead, back[::-1])

    def repeat(self, calls: Sequence[RowCall]) -> None:
        """Make each call four times at once; nothing of them is compared."""
        for call in calls:
            self.ask_at_once([call] * 4, clients=1)

    def cancel(self, calls: Sequence[RowCall]) -> None:
        """Cancel each call, one by one, where its handler takes longer than a moment, and rest; nothing is compared."""
        for server in self._servers:
            for row, call in calls:
                given = {"metadata": call.metadata, "timeout_s": self._patience_s(row), "cancel_after_s": _CANCELLED_S}
                server.clients[0].ask(row, call.requests, **given)
        time.sleep(_REST_S)

    def connect_anew(self) -> None:
        """Close the connections of both clients; their next calls make new ones."""
        for client in (one for server in self._servers for one in server.clients):
            client.disconnect()

    def _each(self, calls: Sequence[RowCall], *sides: list[CallOutcome]) -> list[AskedCall]:
        return [self._compared(row, call, *pair) for (row, call), *pair in zip(calls, *sides, strict=True)]

    def _patience_s(self, row: ServiceMethod) -> float:
        waits = self._waited[row.name] < _WAITS
        return self.deadline_s if waits else min(self.deadline_s, max(_SHORT_S, self.deadline_s / 10))

    def _alone(self, caller: ServiceCaller, row: ServiceMethod, call: ServiceCall) -> CallOutcome:
        patience_s = self._patience_s(row)
        turn_s = _HELD_S if call.ends and caller.transport == CONTROL else _SHORT_S
        timeout_s: float | None = patience_s if call.timeout_s is None else call.timeout_s
        cancel_after_s = None
        if call.is_late:
            timeout_s = _OVER_S
        elif call.deadline == "short":
            timeout_s = min(patience_s, max(_SHORT_S, _SHORT_TIMES * self._slowest_s[row.name]))
        elif call.deadline:
            timeout_s, cancel_after_s = None if call.deadline == "none" else _LONG_S, patience_s
        found = caller.ask(
            row,
            call.requests,
            metadata=call.metadata,
            cancel_after=call.cancel_after,
            cancel_after_s=cancel_after_s,
            timeout_s=timeout_s,
            ahead=call.ahead,
            turn_s=min(patience_s, turn_s),
            ends=call.ends,
            options=call.channel,
        )
        if cancel_after_s and found.is_local and found.code == CANCELLED and len(found.items) != call.cancel_after:
            return replace(found, code="DEADLINE_EXCEEDED", details=f"it was cancelled after {cancel_after_s:g} s")
        return found

    def _compared(self, row: ServiceMethod, call: ServiceCall, control: CallOutcome, other: CallOutcome) -> AskedCall:
        decision = Decision(control.transport, other.transport, PROOF, row.effect)
        request: Any = call.requests if row.requests_stream else call.requests[0]
        early = control.code == other.code == CANCELLED and call.cancel_after
        options = CallOptions(without=call.without, answered=call.answered, channel=call.channel)
        made = Comparison(row.name, decision, control, other, request, ended_early=bool(early), options=options)
        evidence = compare(made, self.rules, kind="parity", method=row)
        if call.is_late or call.ends == "raises":
            evidence = _status(evidence, "its deadline was over" if call.is_late else "its requests came to no end")
        return AskedCall(call, evidence)


def _status(evidence: Evidence, why: str) -> Evidence:
    """Return what a call shows of which only the status is compared."""
    assert evidence.shadow is not None
    mine, other = evidence.primary.code, evidence.shadow.code
    if mine == other:
        left_out = {name: why for name in ASPECTS if name != "status"}
        return replace(evidence, verdict=EQUAL, why="", aspect="", where="", values={}, left_out=left_out)
    return differing_at(Difference("code", "code", mine, other), replace(evidence, why=""))
