"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. Then two fresh servers on ports are asked the same: a
server that differs from itself says nothing of a transport. If it does not, the smallest call that differs is looked
for, on a fresh pair that is asked the same calls of the method first. Calls of a recording are made in their order, all
of them, and where one differs, on two fresh servers on ports as well. The last call of each method has a deadline that
is over. At the end, up to eight accepted calls of each method are made at once, by one client and by two, and one of a
stream for a stream with each request sent when the item before it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import ITSELF, NOT_COMPARED, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.parity.call_parity import ParityCounts
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.parity_evidence import EvidenceWriter
from lucky_transport_migration.parity.recorded_requests import RecordedRequests
from lucky_transport_migration.parity.service_call import ServiceCall, smaller
from lucky_transport_migration.parity.service_pair import Asked, ServerPair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_requests import NOT_DRAWN, DrawnCalls
from lucky_transport_migration.parity.service_servers import ServerCommand, methods_of

_ACCEPTED = ("OK", CANCELLED)
_MOST_SHRINKS = 300
_SHRINK_S = 30.0
_END_S = 0.5
#: Of calls at once: how many, and what each has at most, in bytes and seconds.
_AT_ONCE, _AT_ONCE_BYTES, _AT_ONCE_S = 8, 10_000, 0.2

#: What recorded calls leave open.
_NOT_PLAYED = {
    "calls at once": "each recorded call is made when the one before it has ended",
    "the order between requests and responses of a stream": "a recording does not hold it; all requests are sent first",
}

Write = Callable[[Evidence], None]


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
    _accepted: dict[str, list[ServiceCall]] = field(default_factory=dict[str, list[ServiceCall]])

    def prove(self, advance: Callable[[], None] = lambda: None) -> ServiceParity:
        """Return the outcome; `advance` is called once a method, or once a recorded call.

        Raises ConfigError and UnknownName for what describes nothing, NotReachable for a server that does not start.
        """
        parity = ServiceParity(["grpc-tcp", "shm"], rules=self.rules)
        with ExitStack() as stack:
            pair = stack.enter_context(self._pair(CANDIDATE))
            kept = () if self.files or self.recorded is None else self.recorded.described
            chosen = (self.services, self.pattern)
            methods, contents = methods_of(
                pair.endpoint, self.files, self.folders, *chosen, kept, self.command.metadata
            )
            self.values.check(methods)
            if self.recorded is not None:
                methods = self.recorded.choose(methods, parity)
            parity.left |= NOT_DRAWN if self.recorded is None else _NOT_PLAYED
            write = stack.enter_context(closing(EvidenceWriter(self.evidence, contents))).write
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
            for row in methods if self.recorded is None else ():
                if not (parity.lost or row.name in parity.itself or parity.methods[row.name].first_difference):
                    self._prove_turns(row, pair, parity, write)
                    self._prove_at_once(row, pair, parity, write)
                    self._look(row, pair, parity)
        return parity

    def _look(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Say it where a server has ended: nothing can be compared any more."""
        if not parity.lost and (ended := pair.ended()):
            parity.lost = f"a server ended in calls of {row.name}: {ended}"

    def _prove_method(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        first, drawn = parity.calls, DrawnCalls(row, self.values, self.seed)
        accepted = self._accepted[row.name] = []

        def note(asked: Asked) -> None:
            parity.methods[row.name].add(asked.evidence)
            if asked.differs:
                return
            write(asked.evidence)
            sides = (asked.evidence.primary, asked.evidence.shadow)
            is_quick = all(side and side.code in _ACCEPTED and side.us < _AT_ONCE_S * 1e6 for side in sides)
            if is_quick and not asked.call.deadline and sum(map(len, asked.call.requests)) <= _AT_ONCE_BYTES:
                accepted.append(asked.call)

        found = self._examine(row, pair, drawn, note)
        if found is None:
            if not drawn.is_random:
                parity.left[f"cases of requests of {row.name} beyond the first {self.count}"] = "pass more --requests"
            return
        counts = parity.methods[row.name]
        number = first + counts.compared - 1
        with self._pair(CONTROL) as twins:
            noise = self._examine(row, twins, drawn)
        if noise is not None:
            write(replace(noise.evidence, kind="aa"))
            write(_uncompared(found.evidence))
            parity.itself[row.name] = noise.located(number, "drawn, on two ports")
            return
        write(found.evidence)
        what = "as drawn"
        if found.evidence.aspect != "late":  # a smaller call is not slower
            with self._pair(CANDIDATE) as fresh:
                again = self._examine(row, fresh, drawn)
                is_alike = again is not None and again.evidence.aspect == found.evidence.aspect
                found = self._smallest(row, fresh, again) if again and is_alike else found
            what = "the smallest found" if is_alike else "as drawn; it does not differ so on fresh servers"
        counts.first_difference = found.located(number, what)

    def _prove_late(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        """Make a call whose deadline is over. No client waits for it, so it is no evidence unless it differs."""
        call = ServiceCall(() if row.requests_stream else (row.request(),), is_late=True)
        asked = pair.ask(row, call, reverse=False)
        parity.late += 1
        if asked.differs and row.name not in parity.itself:
            self._take(asked, parity, write, "with no time left")

    def _play(
        self,
        recorded: RecordedRequests,
        pair: ServerPair,
        parity: ServiceParity,
        write: Write,
        advance: Callable[[], None],
    ) -> None:
        """Make the recorded calls on both, and where answers differ on two servers on ports too."""
        differing: dict[str, list[tuple[int, Asked]]] = {}
        was_gone = False
        for number, (row, call) in enumerate(recorded.calls(parity.rows)):
            asked = pair.ask(row, call, reverse=number % 2 == 1)
            parity.methods[row.name].add(asked.evidence)
            if asked.differs:
                differing.setdefault(row.name, []).append((parity.calls - 1, asked))
            else:
                write(asked.evidence)
            advance()
            if asked.is_gone and not was_gone:
                pair.ended(_END_S)  # a connection breaks before its process has ended
            was_gone = asked.is_gone
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
        drawn: DrawnCalls,
        note: Callable[[Asked], None] = lambda _: None,
    ) -> Asked | None:
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
    def _smallest(row: ServiceMethod, pair: ServerPair, found: Asked) -> Asked:
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

    def _prove_turns(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        """Make an accepted call with each request sent after an item, so that one which comes late is found.

        A handler that answers over gRPC only when it has a further request gets one more ahead.
        """
        calls = [one for one in self._accepted[row.name] if len(one.messages) > 2]
        if not (row.requests_stream and row.stream and calls):
            return
        for ahead in (1, 2):
            asked = pair.ask(row, replace(calls[0], ahead=ahead), reverse=False)
            if not asked.evidence.primary.local:
                self._take(asked, parity, write, "in turns")
                return
        why = "over gRPC no item comes before the next request"
        parity.left[f"the order between requests and responses of {row.name}"] = why

    @staticmethod
    def _take(asked: Asked, parity: ServiceParity, write: Write, what: str) -> None:
        """Count a call that was made in a way of its own."""
        counts = parity.methods[asked.evidence.method]
        counts.add(asked.evidence)
        write(asked.evidence)
        if asked.differs and counts.first_difference is None:
            counts.first_difference = asked.located(parity.calls - 1, what)

    def _prove_at_once(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity, write: Write) -> None:
        """Make accepted calls at once. A difference counts where each call alone is answered alike, and where two
        servers on ports answer alike too, whichever call comes first.
        """
        accepted, what = self._accepted[row.name], f"calls of {row.name} at once"
        calls = accepted[:: len(accepted) // _AT_ONCE + 1]
        if len(calls) < 2:
            parity.left[what] = "the server accepted fewer than two that are small and quick"
            return
        for clients, of in ((1, "at once"), (2, "of two clients at once")):
            found = next((one for one in pair.ask_at_once(row, calls, clients=clients) if one.differs), None)
            if found is None:
                continue
            is_mixed = pair.ask(row, found.call, reverse=False).differs or pair.hangs_on_order(row, calls)
            if not is_mixed:  # what a call of another method made, as a session, the twins lack
                with self._pair(CONTROL) as twins:
                    is_mixed = twins.mixes(row, calls)
            if is_mixed:
                parity.left[what] = "the server's answers hang on which of them comes first"
                return
            self._take(found, parity, write, of)
            return

    def _pair(self, other: str) -> ServerPair:
        return ServerPair(self.command, other, self.rules, self.deadline_s)


def _uncompared(evidence: Evidence) -> Evidence:
    """Return the evidence of a difference that says nothing of a transport."""
    return replace(evidence, verdict=NOT_COMPARED, aspect="", where="", values={}, why=ITSELF)
