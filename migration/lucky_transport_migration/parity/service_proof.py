"""The proof of a service of a team's own: one server on a port, one in shared memory, the same calls to both.

Each method gets drawn calls until one is answered differently. Then two fresh servers on ports are asked the same: a
server that differs from itself says nothing of a transport. If it does not, the smallest call that differs is looked
for, on a fresh pair that is asked the same calls of the method first. Calls of a recording are made in their order, all
of them, and where one differs, on two fresh servers on ports as well. The last call of each method has a deadline that
is over. At the end, a call of each method and smaller ones are made in rounds of all methods, then one of a stream for
a stream with each request sent when the item before it has come, and up to eight accepted ones of each method at once,
by one client and by two; then come the rounds again. What differs there counts where it differs so on a fresh pair too,
and on no two servers on ports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import ITSELF, NOT_COMPARED, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.parity.call_parity import ParityCounts
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.parity_evidence import AskedCall, EvidenceWriter
from lucky_transport_migration.parity.request_table import RequestTable
from lucky_transport_migration.parity.service_call import ServiceCall, smaller
from lucky_transport_migration.parity.service_pair import ROUNDS, ServerPair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_requests import NOT_DRAWN, DrawnCalls, RecordedRequests
from lucky_transport_migration.parity.service_servers import ServerCommand, methods_of

_ACCEPTED = ("OK", CANCELLED)
_MOST_SHRINKS, _SHRINK_S = 300, 30.0
_END_S = 0.5
#: Of calls at once: how many, and what each has at most, in bytes and seconds.
_AT_ONCE, _AT_ONCE_BYTES, _AT_ONCE_S = 8, 10_000, 0.2
#: In a round of all methods each has so many calls that are smaller than one which was accepted, and calls with plain
#: values of these numbers. The second round goes backwards, and so asks some methods for a value before another one has
#: made it; the third asks them again.
_SMALLER, _NEW = 4, ((1001,), (1001, 1002), (1001, 1002))

_NOISE = "two servers on ports differ so too, or fresh ones do not"

#: How requests of a stream end otherwise than by a half-close.
_ENDS = {"held": "half-closed only when it has ended", "raises": "its iterator of requests raises after the last"}

#: What recorded calls leave open.
_NOT_PLAYED = {
    "calls at once": "each recorded call is made when the one before it has ended",
    "the order between requests and responses of a stream": "a recording does not hold it; all requests are sent first",
}

Write = Callable[[Evidence], None]
Note = Callable[[AskedCall], object]
Ask = Callable[[ServerPair], Sequence[AskedCall]]


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
    _write: Write = lambda _: None
    #: By method: the first call that was answered soon, and all of those that were accepted; of one that differs none.
    _quick: dict[str, list[ServiceCall]] = field(default_factory=dict[str, list[ServiceCall]])
    _accepted: dict[str, list[ServiceCall]] = field(default_factory=dict[str, list[ServiceCall]])
    #: What was asked after the drawn calls, to be asked of other pairs.
    _asked: list[Ask] = field(default_factory=list[Ask])
    #: Methods whose answers hang on other calls.
    _mixed: set[str] = field(default_factory=set[str])

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
            for row in methods:
                if not parity.lost and self.recorded is None:
                    self._prove_method(row, pair, parity)
                    advance()
                if not parity.lost:
                    self._prove_late(row, pair, parity)
                    self._look(row, pair, parity)
            self._prove_rounds(pair, parity, "in rounds of all methods")
            for prove in (self._prove_turns, self._prove_ends, self._prove_at_once):
                for row in map(parity.rows.__getitem__, self._accepted):
                    if not parity.lost:
                        prove(row, pair, parity)
                        self._look(row, pair, parity)
            self._prove_rounds(pair, parity, "in rounds of all methods, after calls at once and without an end")
        return parity

    def _look(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Say it where a server has ended: nothing can be compared any more."""
        if not parity.lost and (ended := pair.ended()):
            parity.lost = f"a server ended in calls of {row.name}: {ended}"

    def _prove_method(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        first, drawn = parity.calls, DrawnCalls(row, self.values, self.seed)
        self._accepted[row.name] = []

        def note(asked: AskedCall) -> None:
            parity.methods[row.name].add(asked.evidence)
            if asked.differs:
                return
            self._write(asked.evidence)
            sides = [side for side in (asked.evidence.primary, asked.evidence.shadow) if side]
            is_quick = all(side.us < _AT_ONCE_S * 1e6 for side in sides)
            if is_quick and not asked.call.deadline and sum(map(len, asked.call.requests)) <= _AT_ONCE_BYTES:
                self._quick.setdefault(row.name, [asked.call])
                self._accepted[row.name] += [asked.call] * all(side.code in _ACCEPTED for side in sides)

        found = self._examine(row, pair, drawn, note)
        if found is None:
            if not drawn.is_random:
                parity.left[f"cases of requests of {row.name} beyond the first {self.count}"] = "pass more --requests"
            return
        del self._accepted[row.name]
        counts = parity.methods[row.name]
        number = first + counts.compared - 1
        with self._pair(CONTROL) as twins:
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
            what = "the smallest found" if is_alike else "as drawn; it does not differ so on fresh servers"
        counts.first_difference = found.located(number, what)

    def _prove_late(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Make a call whose deadline is over. No client waits for it, so it is no evidence unless it differs."""
        requests = () if row.requests_stream else (row.request(),)
        asked = pair.ask(row, ServiceCall(requests, is_late=True), reverse=False)
        parity.late += 1
        if asked.differs and row.name not in parity.itself:
            self._take(asked, parity, "with no time left")

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
            self._look(row, pair, parity)
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

    def _prove_rounds(self, pair: ServerPair, parity: ServiceParity, when: str) -> None:
        """Make calls of all methods in rounds, so that what a call of one changes shows in answers of another."""
        several: list[tuple[ServiceMethod, list[ServiceCall]]] = []
        for name, accepted in self._accepted.items():
            if whole := [one for one in accepted[:_AT_ONCE] or self._quick.get(name, ()) if one.cancel_after is None]:
                row, first = parity.rows[name], max(whole, key=lambda one: len(one.messages))
                several.append((row, [first, *islice(smaller(first, requests_stream=row.requests_stream), _SMALLER)]))
        if parity.lost:
            return
        table, calls = RequestTable(self.values.named), list[tuple[ServiceMethod, ServiceCall]]()
        for number, new in enumerate(_NEW):
            for row, few in several[:: -1 if number == 1 else 1]:
                plain = [replace(few[0], messages=(table.plain(row.request, at),)) for at in new]
                calls += [(row, call) for call in (*few, *plain)[:: -1 if number == 1 else 1]]

        def ask(pair: ServerPair) -> list[AskedCall]:
            return [pair.ask(row, call, reverse=False) for row, call in calls]

        self._asked.append(ask)
        found = {one.evidence.method: one for one in reversed(ask(pair)) if one.differs}
        for name in self._of_transport(found.keys(), parity):
            self._take(found.pop(name), parity, when)
        for name in found:
            parity.left[f"what other calls change in answers of {name}"] = _NOISE
            self._look(parity.rows[name], pair, parity)

    def _of_transport(self, names: Collection[str], parity: ServiceParity, also: Ask | None = None) -> set[str]:
        """Return the methods whose answers differ on no two servers on ports, and on a fresh pair, where each is asked
        all that was asked so far. also: what else must not differ on ports.
        """
        wanted = set(names) - self._mixed
        for other, drawn in ((CONTROL, False), (CONTROL, True), (CANDIDATE, True)):
            if not wanted:
                break
            with self._pair(other) as pair:
                for row in parity.rows.values() if drawn else ():
                    self._examine(row, pair, DrawnCalls(row, self.values, self.seed))
                asked = [*self._asked, *([also] if also and other == CONTROL else [])] * ROUNDS
                differing = {one.evidence.method for ask in asked for one in ask(pair) if one.differs}
            wanted = wanted & differing if other == CANDIDATE else wanted - differing
        self._mixed |= set(names) - wanted
        return wanted

    def _prove_turns(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Make an accepted call with each request sent after an item, so that one which comes late is found.

        A handler that answers over gRPC only when it has a further request gets one more ahead.
        """
        calls = [one for one in self._accepted[row.name] if len(one.messages) > 2]
        if not (row.requests_stream and row.stream and calls):
            return
        for ahead in (1, 2):
            asked = self._ask(row, pair, replace(calls[0], ahead=ahead))
            if not asked.evidence.primary.local:
                self._take(asked, parity, "in turns")
                return
        parity.left[f"the order between requests and responses of {row.name}"] = "over gRPC items need the next request"

    def _prove_ends(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Make a call with the requests of all accepted ones that is half-closed only when it has ended, so that an end
        which has to come before is found. Where none comes over gRPC, the iterator of the same requests raises.
        """
        messages = tuple(message for call in self._accepted[row.name] for message in call.messages)
        if not row.requests_stream:
            return
        if not messages:
            parity.left[f"how {row.name} ends without a half-close"] = "it accepted no request that is small and quick"
            return
        for ends, what in _ENDS.items():
            call = ServiceCall(messages, ends=ends)
            asked = self._ask(row, pair, call)
            if ends == "raises" and asked.differs:  # an end that was slow may have come first this time
                asked = self._ask(row, pair, call)
            if not asked.evidence.primary.local:
                self._take(asked, parity, what)
                if ends == "held" and asked.evidence.primary.code != "OK":
                    parity.left[f"ends of {row.name} before the half-close"] = "it refuses the requests of all together"
                return

    def _ask(self, row: ServiceMethod, pair: ServerPair, call: ServiceCall) -> AskedCall:
        """Ask the pair, and other pairs later."""
        self._asked.append(lambda other: [other.ask(row, call, reverse=False)])
        return pair.ask(row, call, reverse=False)

    def _take(self, asked: AskedCall, parity: ServiceParity, what: str) -> None:
        """Count a call that was made in a way of its own, unless its answer may hang on other calls."""
        if asked.differs and asked.evidence.method in self._mixed:
            return
        counts = parity.methods[asked.evidence.method]
        counts.add(asked.evidence)
        self._write(asked.evidence)
        if asked.differs and counts.first_difference is None:
            counts.first_difference = asked.located(parity.calls - 1, what)

    def _prove_at_once(self, row: ServiceMethod, pair: ServerPair, parity: ServiceParity) -> None:
        """Make accepted calls at once. A difference counts where each call alone is answered alike, and where two
        servers on ports answer alike too, whichever call comes first.
        """
        accepted, what = self._accepted[row.name], f"calls of {row.name} at once"
        calls = accepted[:: len(accepted) // _AT_ONCE + 1]
        if len(calls) < 2:
            parity.left[what] = "the server accepted fewer than two that are small and quick"
            return
        for clients, of in ((1, "at once"), (2, "of two clients at once")):
            ask = partial(ServerPair.ask_at_once, row=row, calls=calls, clients=clients)
            self._asked.append(ask)
            if (found := next((one for one in ask(pair) if one.differs), None)) is None:
                continue
            if pair.ask(row, found.call, reverse=False).differs:
                parity.left[what] = "calls before them changed the server's answers; the last rounds look at that"
            elif self._of_transport([row.name], parity, partial(ServerPair.in_both_orders, row=row, calls=calls)):
                self._take(found, parity, of)
            else:
                parity.left[what] = f"the server's answers hang on which of them comes first: {_NOISE}"
            return

    def _pair(self, other: str) -> ServerPair:
        return ServerPair(self.command, other, self.rules, self.deadline_s)


def _uncompared(evidence: Evidence) -> Evidence:
    """Return the evidence of a difference that says nothing of a transport."""
    return replace(evidence, verdict=NOT_COMPARED, aspect="", where="", values={}, why=ITSELF)
