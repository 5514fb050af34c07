"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. Then two fresh servers on ports are asked the same: a
server that differs from itself says nothing of a transport. If it does not, hypothesis looks for the smallest call that
differs, on a fresh pair that is asked the same calls of the method first. Calls of a recording are made in their order,
all of them, and where one differs, on two fresh servers on ports as well. The last call of each method has a deadline
that is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import Flaky

from lucky_transport_migration.catalogue.descriptors import keep_set
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import EQUAL, ITSELF, NOT_COMPARED, Evidence
from lucky_transport_migration.parity.call_parity import ParityCounts
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.recorded_requests import RecordedRequests
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_pair import AskedCall, ServerPair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_requests import calls
from lucky_transport_migration.parity.service_servers import ServerCommand, methods_of

__all__ = ["ServiceProof"]

_log = logging.getLogger("lucky_transport")

_DRAW = (Phase.generate,)
_SHRINK = (Phase.generate, Phase.shrink)
_MOST_SHRINKS = 300
_SHRINK_S = 30.0
_END_S = 0.5

Write = Callable[[Evidence], None]


class _Differs(Exception):
    """A call was answered differently, which hypothesis takes for a failed test."""


class _Enough(BaseException):
    """No more calls are wanted; hypothesis lets it pass."""


@dataclass(slots=True)
class ServiceProof:
    """How a service is proven. files: what describes it, () = the recording, or else the server's reflection; folders:
    where a .proto finds its imports. services: full names, () = all. pattern: of methods. count: drawn calls of each.
    deadline_s: of each call. values: what drawn fields often have. recorded: the calls to make in place of drawn ones.
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
    values: FieldValues = field(default_factory=FieldValues)
    recorded: RecordedRequests | None = None

    def prove(self, advance: Callable[[], None] = lambda: None) -> ServiceParity:
        """Return the outcome; `advance` is called once a method, or once a recorded call.

        Raises ConfigError and UnknownName for what describes nothing, NotReachable for a server that does not start.
        """
        parity = ServiceParity(["grpc-tcp", "shm"], rules=self.rules)
        with ExitStack() as stack:
            pair = stack.enter_context(self._pair(CANDIDATE))
            kept = () if self.files or self.recorded is None else self.recorded.described
            chosen = (self.services, self.pattern)
            methods, contents = methods_of(pair.endpoint, self.files, self.folders, *chosen, kept)
            self.values.check(methods)
            if self.recorded is not None:
                methods = self.recorded.choose(methods, parity)
            write = self._writer(contents, stack)
            parity.rows = {row.name: row for row in methods}
            parity.methods = {row.name: ParityCounts() for row in methods}
            if self.recorded is not None:
                self._play(self.recorded, pair, parity, write, advance)
            for row in methods:
                if not parity.lost and self.recorded is None:
                    self._prove_method(row, pair, parity, write)
                    advance()
                if not parity.lost:
                    self._prove_late(row, pair, parity, write)
                    self._look(row, pair, parity)
        return parity

    def _look(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Say it where a server has ended: nothing can be compared any more."""
        if not parity.lost and (ended := pair.ended()):
            parity.lost = f"a server ended in calls of {row.name}: {ended}"

    def _prove_method(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        first = parity.calls

        def note(evidence: Evidence) -> None:
            parity.methods[row.name].add(evidence)
            if evidence.verdict in (EQUAL, NOT_COMPARED):
                write(evidence)

        found = self._examine(row, pair, _DRAW, note)
        if found is None:
            return
        counts = parity.methods[row.name]
        number = first + counts.compared - 1
        with self._pair(CONTROL) as twins:
            noise = self._examine(row, twins, _DRAW)
        if noise is not None:
            write(replace(noise.evidence, kind="aa"))
            write(_uncompared(found.evidence))
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

    def _prove_late(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        """Make a call whose deadline is over. No client waits for it, so it is no evidence unless it differs."""
        call = ServiceCall(() if row.requests_stream else (row.request(),), is_late=True)
        asked = pair.ask(row, call, reverse=False)
        parity.late += 1
        if asked.differs and row.name not in parity.itself:
            counts = parity.methods[row.name]
            counts.add(asked.evidence)
            write(asked.evidence)
            counts.first_difference = counts.first_difference or asked.located(parity.calls - 1, "with no time left")

    def _play(
        self,
        recorded: RecordedRequests,
        pair: ServerPair,
        parity: ServiceParity,
        write: Write,
        advance: Callable[[], None],
    ) -> None:
        """Make the recorded calls on both, and where answers differ on two servers on ports too."""
        differing: dict[str, list[tuple[int, AskedCall]]] = {}
        for number, (row, call) in enumerate(recorded.calls(parity.rows)):
            asked = pair.ask(row, call, reverse=number % 2 == 1)
            parity.methods[row.name].add(asked.evidence)
            if asked.differs:
                differing.setdefault(row.name, []).append((parity.calls - 1, asked))
            else:
                write(asked.evidence)
            advance()
            if asked.is_gone:
                pair.ended(_END_S)  # a connection breaks before its process has ended
            self._look(row, pair, parity)
            if parity.lost:
                break
        if differing:
            with self._pair(CONTROL) as twins:
                for row, call in recorded.calls(parity.rows):
                    noise = twins.ask(row, call, reverse=False)
                    if noise.differs and (found := differing.pop(row.name, None)):
                        write(replace(noise.evidence, kind="aa"))
                        for _, asked in found:
                            write(_uncompared(asked.evidence))
                        parity.itself[row.name] = noise.located(parity.calls - 1, "recorded, on two ports")
        for name, found in differing.items():
            for _, asked in found:
                write(asked.evidence)
            number, asked = found[0]
            parity.methods[name].first_difference = asked.located(number, "as recorded")

    def _examine(
        self,
        row: ServiceMethod,
        pair: ServerPair,
        phases: Sequence[Phase],
        note: Callable[[Evidence], None] = lambda _: None,
    ) -> AskedCall | None:
        """Return the first difference, or with Phase.shrink the smallest that is found; note: of calls up to the first.

        The same seed draws the same calls. A method that has fewer different ones, as one whose request carries
        nothing, gets them again.
        """
        found: list[AskedCall] = []
        made: list[ServiceCall] = []
        since, number = 0.0, 0

        draw = settings(
            max_examples=self.count,
            phases=phases,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
        )

        def ask_both(call: ServiceCall) -> None:
            nonlocal since, number
            if found and (time.monotonic() - since > _SHRINK_S or number > _MOST_SHRINKS):
                raise _Enough
            asked = pair.ask(row, call, reverse=number % 2 == 1)
            number += 1
            made.append(call)
            if not found:
                note(asked.evidence)
            if not asked.differs:
                return
            if not found:
                since, number = time.monotonic(), 0
            found.append(asked)
            within_s = _END_S if asked.is_gone else 0.0  # as in `_play`
            if Phase.shrink not in phases or pair.ended(within_s):
                raise _Enough
            raise _Differs

        with suppress(_Differs, _Enough, Flaky):
            seed(f"{self.seed} {row.name}")(draw(given(calls(row, self.values))(ask_both)))()
            for call in islice(cycle(made[:]), max(0, self.count - number)):
                ask_both(call)
        return found[-1] if found else None

    def _pair(self, other: str) -> ServerPair:
        return ServerPair(self.command, other, self.rules, self.deadline_s)

    def _writer(self, contents: Sequence[bytes], stack: ExitStack) -> Write:
        """Return what writes evidence, after what describes the services."""
        if self.evidence is None:
            return lambda _: None
        folder, lines = self.evidence, stack.enter_context(closing(Lines(_log.warning)))
        folder.mkdir(parents=True, exist_ok=True)
        for content in contents:
            keep_set(folder, content)
        return lambda evidence: lines.write(folder, [evidence])


def _uncompared(evidence: Evidence) -> Evidence:
    """Return the evidence of a difference that says nothing of a transport."""
    return replace(evidence, verdict=NOT_COMPARED, aspect="", where="", values={}, why=ITSELF)
