"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. Then two fresh servers on ports are asked the same, the
calls of the methods before it too: a server that differs from itself says nothing of a transport. If it does not, the
smallest call that differs is looked for, on a fresh pair that is asked the same calls of the method first. Calls of a
recording are made in their order, all of them, and where one differs, on two fresh servers on ports as well. The last
call of each method has a deadline that is over. What accepted calls do to each other is looked at in the end: see
interleaving.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import GAP, ITSELF, NOT_COMPARED, PROOF, Evidence, SideResult
from lucky_transport_migration.parity.call_parity import ParityCounts
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.interleaving import Interleaving
from lucky_transport_migration.parity.parity_evidence import AskedCall, EvidenceWriter
from lucky_transport_migration.parity.request_table import RequestTable
from lucky_transport_migration.parity.service_call import ServiceCall, smaller
from lucky_transport_migration.parity.service_pair import ServerPair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_requests import NOT_DRAWN, DrawnCalls, RecordedRequests
from lucky_transport_migration.parity.service_servers import ServerCommand, methods_of

_MOST_SHRINKS, _SHRINK_S = 300, 30.0
_END_S = 0.5

#: What recorded calls leave open.
_NOT_PLAYED = {
    "calls at once": "each recorded call is made when the one before it has ended",
    "the order between requests and responses of a stream": "a recording does not hold it; all requests are sent first",
}

Note = Callable[[AskedCall], object]


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
    count: int = 100
    seed: int = 0
    deadline_s: float = 10.0
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    evidence: Path | None = None
    values: FieldValues = field(default_factory=FieldValues)
    recorded: RecordedRequests | None = None
    _write: Callable[[Evidence], None] = lambda _: None

    def prove(self, advance: Callable[[], None] = lambda: None) -> ServiceParity:
        """Return the outcome; `advance` is called once a method, or once a recorded call.

        Raises ConfigError and UnknownName for what describes nothing, NotReachable for a server that does not start.
        """
        parity = ServiceParity(["grpc-tcp", "shm"], rules=self.rules)
        with ExitStack() as stack:
            pair = stack.enter_context(self._pair(CANDIDATE))
            kept = () if self.files or self.recorded is None else self.recorded.described
            methods, contents = methods_of(
                pair.endpoint, self.files, self.folders, self.services, self.pattern, kept, self.command.metadata
            )
            self.values.check(methods)
            if self.recorded is not None:
                methods = self.recorded.choose(methods, parity)
            parity.left |= NOT_DRAWN if self.recorded is None else _NOT_PLAYED
            self._write = stack.enter_context(closing(EvidenceWriter(self.evidence, contents))).write
            parity.rows = {row.name: row for row in methods}
            parity.methods = {row.name: ParityCounts() for row in methods}
            if self.recorded is not None:
                self._play(pair, parity, advance)
            ask, plain = partial(self._ask_drawn, methods), RequestTable(self.values.named)
            later = Interleaving(pair, parity, self._pair, ask, self._write, plain)
            for row in methods:
                if not parity.lost and self.recorded is None:
                    self._prove_method(row, later)
                    advance()
                if not parity.lost:
                    self._prove_late(row, later)
                    parity.look(row.name, pair.ended())
            later.prove()
            self._write_gaps(parity)
        return parity

    def _write_gaps(self, parity: ServiceParity) -> None:
        """Write what of each method is compared in no call, for the page to sign."""
        for what, why in parity.left.items():
            for name in parity.rows:
                if f"{name} " in f"{what} ":
                    self._write(Evidence(name, GAP, SideResult(CONTROL), kind=PROOF, why=f"{what} ({why})"))

    def _prove_method(self, row: ServiceMethod, later: Interleaving) -> None:
        first, parity, drawn = later.parity.calls, later.parity, DrawnCalls(row, self.values, self.seed)

        def note(asked: AskedCall) -> None:
            parity.methods[row.name].add(asked.evidence)
            if not asked.differs:
                self._write(asked.evidence)
                later.keep(asked)

        found = self._examine(row, later.pair, drawn, note)
        if found is None:
            if not drawn.is_random:
                parity.left[f"cases of requests of {row.name} beyond the first {self.count}"] = "pass more --requests"
            return
        later.leave_out(row.name)
        counts = parity.methods[row.name]
        number = first + counts.compared - 1
        with self._pair(CONTROL) as twins:  # what another method has stored may differ too
            self._ask_drawn(list(parity.rows.values())[: list(parity.rows).index(row.name)], twins)
            noise = self._examine(row, twins, drawn)
        if noise is not None:
            self._write(replace(noise.evidence, kind="aa"))
            self._write(_uncompared(found.evidence))
            parity.itself[row.name] = noise.located(number, "drawn, on two ports")
            return
        self._write(found.evidence)
        what = "as drawn"
        if found.evidence.aspect != "late":  # a smaller call is not slower
            with self._pair(CANDIDATE) as fresh:
                again = self._examine(row, fresh, drawn)
                is_alike = again is not None and again.evidence.aspect == found.evidence.aspect
                found = self._smallest(row, fresh, again) if again and is_alike else found
            what = "the smallest found" if is_alike else "as drawn; not without the calls of other methods before it"
        counts.first_difference = found.located(number, what)

    def _prove_late(self, row: ServiceMethod, later: Interleaving) -> None:
        """Make a call whose deadline is over. No client waits for it, so it is no evidence unless it differs."""
        requests = () if row.requests_stream else (row.request(),)
        asked = later.pair.ask(row, ServiceCall(requests, is_late=True), reverse=False)
        later.parity.late += 1
        if asked.differs and row.name not in later.parity.itself:
            later.take(asked, "with no time left")

    def _play(self, pair: ServerPair, parity: ServiceParity, advance: Callable[[], None]) -> None:
        """Make the recorded calls on both, and where answers differ on two servers on ports too."""
        differing: dict[str, list[tuple[int, AskedCall]]] = {}
        was_gone, recorded = False, self.recorded
        assert recorded is not None
        for number, (row, call) in enumerate(recorded.calls(parity.rows)):
            asked = pair.ask(row, call, reverse=number % 2 == 1)
            parity.methods[row.name].add(asked.evidence)
            if asked.differs:
                differing.setdefault(row.name, []).append((parity.calls - 1, asked))
            else:
                self._write(asked.evidence)
            advance()
            if asked.is_gone and not was_gone:
                pair.ended(_END_S)  # a connection breaks before its process has ended
            was_gone = asked.is_gone
            parity.look(row.name, pair.ended())
            if parity.lost:
                break
        if differing:
            with self._pair(CONTROL) as twins:
                for row, call in recorded.calls(parity.rows):
                    noise = twins.ask(row, call, reverse=False)
                    if noise.differs and (found := differing.pop(row.name, None)):
                        self._write(replace(noise.evidence, kind="aa"))
                        for _, asked in found:
                            self._write(_uncompared(asked.evidence))
                        parity.itself[row.name] = noise.located(parity.calls - 1, "recorded, on two ports")
        for name, found in differing.items():
            for _, asked in found:
                self._write(asked.evidence)
            number, asked = found[0]
            parity.methods[name].first_difference = asked.located(number, "as recorded")

    def _examine(self, row: ServiceMethod, pair: ServerPair, drawn: DrawnCalls, note: Note = id) -> AskedCall | None:
        """Return the first difference between the drawn calls, the same ones each time; note: of those up to it."""
        for number, call in enumerate(drawn):
            if number == self.count:
                break
            asked = pair.ask(row, call, reverse=number % 2 == 1)
            note(asked)
            if asked.differs:
                return asked
        return None

    @staticmethod
    def _smallest(row: ServiceMethod, pair: ServerPair, found: AskedCall) -> AskedCall:
        """Return the smallest call that is found to differ; a server that ends in one answers none that is smaller."""
        deadline, left = Deadline(_SHRINK_S), _MOST_SHRINKS
        while not pair.ended(_END_S if found.is_gone else 0.0):
            for call in smaller(found.call, requests_stream=row.requests_stream):
                if deadline.expired or not left:
                    return found
                left -= 1
                asked = pair.ask(row, call, reverse=left % 2 == 1)
                if asked.evidence.aspect == found.evidence.aspect:
                    found = asked
                    break
            else:
                break
        return found

    def _ask_drawn(self, rows: Sequence[ServiceMethod], pair: ServerPair) -> None:
        for row in rows:
            self._examine(row, pair, DrawnCalls(row, self.values, self.seed))

    def _pair(self, other: str) -> ServerPair:
        return ServerPair(self.command, other, self.rules, self.deadline_s)


def _uncompared(evidence: Evidence) -> Evidence:
    """Return the evidence of a difference that says nothing of a transport."""
    return replace(evidence, verdict=NOT_COMPARED, aspect="", where="", values={}, why=ITSELF)
