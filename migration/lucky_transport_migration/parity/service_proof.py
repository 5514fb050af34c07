"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. When all have theirs, two fresh servers on ports are
asked the same, the calls of other methods before it too: a server that differs from itself says nothing of a transport.
Of a method that does not, the smallest call that differs is looked for, on a fresh pair that is asked the same calls of
it first. Calls of a recording are made in their order, all of them, and where one differs, on two fresh servers on
ports as well. Then each method gets a call whose deadline is over. What accepted calls do to each other is looked at in
the end: see interleaving.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
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

#: The calls of each method that differed, with their numbers.
Differing = dict[str, list[tuple[int, AskedCall]]]


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
            plain = RequestTable(self.values.named)
            later = Interleaving(pair, parity, self._pair, partial(self._ask_drawn, methods), self._write, plain)
            differing = self._draw(later, advance) if self.recorded is None else self._play(pair, parity, advance)
            self._judge(parity, differing)
            for row in methods:
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

    def _draw(self, later: Interleaving, advance: Callable[[], None]) -> Differing:
        """Make the drawn calls of each method until one differs."""
        parity, differing = later.parity, Differing()
        for row in parity.rows.values():
            if parity.lost:
                break
            first, counts, drawn = parity.calls, parity.methods[row.name], DrawnCalls(row, self.values, self.seed)
            for asked in self._asked(row, later.pair, drawn):
                counts.add(asked.evidence)
                if asked.differs:
                    later.leave_out(row.name)
                    differing[row.name] = [(first + counts.compared - 1, asked)]
                else:
                    self._write(asked.evidence)
                    later.keep(asked)
            if row.name not in differing and not drawn.is_random:
                parity.left[f"cases of requests of {row.name} beyond the first {self.count}"] = "pass more --requests"
            advance()
            is_gone = any(one.is_gone for _, one in differing.get(row.name, ()))
            parity.look(row.name, later.pair.ended(_END_S if is_gone else 0.0))
        return differing

    def _prove_late(self, row: ServiceMethod, later: Interleaving) -> None:
        """Make a call whose deadline is over. No client waits for it, so it is no evidence unless it differs."""
        requests = () if row.requests_stream else (row.request(),)
        asked = later.pair.ask(row, ServiceCall(requests, is_late=True), reverse=False)
        later.parity.late += 1
        if asked.differs and row.name not in later.parity.itself:
            later.take(asked, "with no time left")

    def _play(self, pair: ServerPair, parity: ServiceParity, advance: Callable[[], None]) -> Differing:
        """Make the recorded calls."""
        differing = Differing()
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
        return differing

    def _judge(self, parity: ServiceParity, differing: Differing) -> None:
        """Say of these methods what differs first, unless two servers on ports that are asked the same differ too."""
        noises = self._noises(parity, differing) if differing else {}
        for name, found in differing.items():
            number, first = found[0]
            if (noise := noises.get(name)) is not None:
                self._write(replace(noise.evidence, kind="aa"))
                for _, asked in found:
                    left_out = {"verdict": NOT_COMPARED, "aspect": "", "where": "", "values": {}, "why": ITSELF}
                    self._write(replace(asked.evidence, **left_out))
                parity.itself[name] = noise.located(number, f"{'recorded' if self.recorded else 'drawn'}, on two ports")
                continue
            for _, asked in found:
                self._write(asked.evidence)
            smallest = self._smallest(parity.rows[name], first) if self.recorded is None else (first, "as recorded")
            parity.methods[name].first_difference = smallest[0].located(number, smallest[1])

    def _noises(self, parity: ServiceParity, differing: Differing) -> dict[str, AskedCall]:
        """Return by method where two servers on ports differ first, asked also what other methods may have stored."""
        with self._pair(CONTROL) as twins:
            if self.recorded is None:
                rows = islice(parity.rows.values(), 1 + max(map(list(parity.rows).index, differing)))
                asked = (one for row in rows for one in self._asked(row, twins))
            else:
                asked = (twins.ask(*call, reverse=False) for call in self.recorded.calls(parity.rows))
            found = [one for one in asked if one.differs]
        return {one.evidence.method: one for one in reversed(found)}

    def _asked(self, row: ServiceMethod, pair: ServerPair, drawn: DrawnCalls | None = None) -> Iterator[AskedCall]:
        """Make the drawn calls, the same ones each time, until one differs."""
        for number, call in enumerate(islice(drawn or DrawnCalls(row, self.values, self.seed), self.count)):
            yield (asked := pair.ask(row, call, reverse=number % 2 == 1))
            if asked.differs:
                break

    def _smallest(self, row: ServiceMethod, found: AskedCall) -> tuple[AskedCall, str]:
        """Return the smallest call that is found to differ on a fresh pair, and what it is; a server that ends in one
        answers none that is smaller.
        """
        if found.evidence.aspect == "late":  # a smaller call is not slower
            return found, "as drawn"
        with self._pair(CANDIDATE) as pair:
            again = next((one for one in self._asked(row, pair) if one.differs), None)
            if again is None or again.evidence.aspect != found.evidence.aspect:
                return found, "as drawn; not without the calls of other methods before it"
            found, deadline, left = again, Deadline(_SHRINK_S), _MOST_SHRINKS
            while not pair.ended(_END_S if found.is_gone else 0.0):
                for call in smaller(found.call, requests_stream=row.requests_stream):
                    if deadline.expired or not left:
                        return found, "the smallest found"
                    left -= 1
                    asked = pair.ask(row, call, reverse=left % 2 == 1)
                    if asked.evidence.aspect == found.evidence.aspect:
                        found = asked
                        break
                else:
                    break
        return found, "the smallest found"

    def _ask_drawn(self, rows: Sequence[ServiceMethod], pair: ServerPair) -> None:
        for row in rows:
            deque(self._asked(row, pair), 0)

    def _pair(self, other: str) -> ServerPair:
        return ServerPair(self.command, other, self.rules, self.deadline_s)
