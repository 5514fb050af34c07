"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. Then two fresh servers on ports are asked the same: a
server that differs from itself says nothing of a transport. If it does not, hypothesis looks for the smallest call that
differs, on a fresh pair that is asked the same calls of the method first.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import Flaky

from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.descriptors import keep_set
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import AtCall, Difference, LocatedDifference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import ASPECTS, compare
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, NOT_COMPARED, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_parity import ParityCounts
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_requests import DrawnCall, calls
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand, methods_of

__all__ = ["ServiceProof"]

_log = logging.getLogger("lucky_transport")

_DRAW = (Phase.generate,)
_SHRINK = (Phase.generate, Phase.shrink)
_MOST_SHRINKS = 300
_SHRINK_S = 30.0
_END_S = 0.5


class _Differs(Exception):
    """A call was answered differently, which hypothesis takes for a failed test."""


class _Enough(BaseException):
    """No more calls are wanted; hypothesis lets it pass."""


@dataclass(frozen=True, slots=True)
class _Found:
    call: DrawnCall
    evidence: Evidence

    def located(self, number: int, what: str) -> LocatedDifference:
        """Return it as a report shows it."""
        sides = list(self.evidence.values.items())
        (left, mine), (right, other) = sides
        found = Difference(self.evidence.aspect, self.evidence.where, mine, other)
        return LocatedDifference(found, (left, right), AtCall(self.evidence.method, number, what, self.call.text))


@dataclass(slots=True)
class ServiceProof:
    """How a service is proven. files: what describes it, () = the server's reflection; folders: where a .proto finds
    its imports. services: full names, () = all. pattern: of methods. count: calls of each. deadline_s: of each call.
    """

    command: ServerCommand
    files: Sequence[Path] = ()
    folders: Sequence[Path] = ()
    services: Sequence[str] = ()
    pattern: str = "all"
    count: int = 50
    seed: int = 0
    deadline_s: float = 10.0
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    evidence: Path | None = None

    def prove(self, advance: Callable[[], None] = lambda: None) -> ServiceParity:
        """Return the outcome; `advance` is called once a method. Raises ConfigError and UnknownName for what describes
        nothing, NotReachable for a server that does not start.
        """
        parity = ServiceParity(["grpc-tcp", "shm"], rules=self.rules, aspects=tuple(ASPECTS))
        with ExitStack() as stack:
            pair = stack.enter_context(self._pair(CANDIDATE))
            methods, contents = methods_of(pair[0], self.files, self.folders, self.services, self.pattern)
            write = self._writer(contents, stack)
            parity.rows = {row.name: row for row in methods}
            parity.methods = {row.name: ParityCounts() for row in methods}
            for row in methods:
                self._prove_method(row, pair, parity, write)
                advance()
                if ended := next(filter(None, (server.exit_report() for server in pair)), ""):
                    parity.lost = f"a server ended in calls of {row.name}: {ended}"
                    break
        return parity

    def _prove_method(
        self,
        row: ServiceMethod,
        pair: tuple[RunningServer, RunningServer],
        parity: ServiceParity,
        write: Callable[[Evidence], None],
    ) -> None:
        counts, first = parity.methods[row.name], parity.calls

        def note(evidence: Evidence) -> None:
            if evidence.verdict == NOT_COMPARED:
                parity.uncompared.setdefault(row.name, Counter())[evidence.why] += 1
            else:
                counts.calls += 1
                counts.equal += evidence.verdict == EQUAL
                counts.accepted += evidence.primary.code in ("OK", CANCELLED)
                counts.refused += evidence.primary.code not in ("OK", CANCELLED)
            if evidence.verdict not in (DIFFERENT, FAILED):
                write(evidence)

        found = self._examine(row, pair, _DRAW, note)
        if found is None:
            return
        number = first + counts.calls - 1
        with self._pair(CONTROL) as twins:
            noise = self._examine(row, twins, _DRAW)
        if noise is not None:
            write(replace(noise.evidence, kind="aa"))
            parity.itself[row.name] = noise.located(number, "drawn, on two ports")
            return
        write(found.evidence)
        if found.evidence.aspect == "late":  # a smaller call is not slower
            counts.first_difference = found.located(number, "as drawn")
            return
        with self._pair(CANDIDATE) as fresh:
            smallest = self._examine(row, fresh, _SHRINK)
        what = "as drawn; it does not differ on fresh servers" if smallest is None else "the smallest found"
        counts.first_difference = (smallest or found).located(number, what)

    def _examine(
        self,
        row: ServiceMethod,
        pair: tuple[RunningServer, RunningServer],
        phases: Sequence[Phase],
        note: Callable[[Evidence], None] = lambda _: None,
    ) -> _Found | None:
        """Return the first difference, or with Phase.shrink the smallest that is found; note: of calls up to the first.

        The same seed draws the same calls.
        """
        found: list[_Found] = []
        since, number = 0.0, 0

        @seed(f"{self.seed} {row.name}")
        @settings(
            max_examples=self.count,
            phases=phases,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
        )
        @given(calls(row))
        def ask_both(call: DrawnCall) -> None:
            nonlocal since, number
            if found and (time.monotonic() - since > _SHRINK_S or number > _MOST_SHRINKS):
                raise _Enough
            evidence = self._ask(row, call, pair, reverse=number % 2 == 1)
            number += 1
            if not found:
                note(evidence)
            if evidence.verdict not in (DIFFERENT, FAILED):
                return
            if not found:
                since, number = time.monotonic(), 0
            found.append(_Found(call, evidence))
            within_s = _END_S if evidence.verdict == FAILED else 0.0  # a connection breaks before its process has ended
            if Phase.shrink not in phases or any(server.exit_report(within_s) for server in pair):
                raise _Enough
            raise _Differs

        with suppress(_Differs, _Enough, Flaky):
            ask_both()
        return found[-1] if found else None

    def _ask(
        self, row: ServiceMethod, call: DrawnCall, pair: tuple[RunningServer, RunningServer], *, reverse: bool
    ) -> Evidence:
        """Ask both servers, in turns the second one first, which is fair to both, and compare."""
        requests = call.requests

        def ask(server: RunningServer) -> CallOutcome:
            return server.caller.ask(
                row, requests, timeout_s=self.deadline_s, metadata=call.metadata, cancel_after=call.cancel_after
            )

        outcomes = [ask(server) for server in (pair[::-1] if reverse else pair)]
        control, other = outcomes[::-1] if reverse else outcomes
        decision = Decision(control.transport, other.transport, "parity", row.effect)
        request: Any = requests if row.requests_stream else requests[0]
        early = control.code == other.code == CANCELLED and call.cancel_after is not None
        made = Comparison(row.name, decision, control, other, request, ended_early=early)
        return replace(compare(made, self.rules, kind="parity", method=row), at=moment(time.time()))

    @contextmanager
    def _pair(self, other: str) -> Generator[tuple[RunningServer, RunningServer]]:
        """Give two fresh servers, the first on a port, and end them."""
        with RunningServer(self.command, CONTROL) as one, RunningServer(self.command, other) as two:
            yield one, two

    def _writer(self, contents: Sequence[bytes], stack: ExitStack) -> Callable[[Evidence], None]:
        """Return what writes evidence, after what describes the services."""
        if self.evidence is None:
            return lambda _: None
        folder, lines = self.evidence, stack.enter_context(closing(Lines(_log.warning)))
        folder.mkdir(parents=True, exist_ok=True)
        for content in contents:
            keep_set(folder, content)
        return lambda evidence: lines.write(folder, [evidence])
