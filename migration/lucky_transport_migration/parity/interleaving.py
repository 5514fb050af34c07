"""What calls do to each other: accepted ones of a service's methods, made once more in other orders and at other times.

    phase       what is asked                                               of                 a difference counts where
    rounds      an accepted call, smaller ones and plain ones, by turns     all methods        the transport makes it
                the same, of two clients call by call and round by round    all methods        the transport makes it
    keys        a call without the metadata given, and with other values    each method        it is seen
    turns       each request sent when the item before it has come          stream to stream   it is seen
    ends        half-closed only when it has ended, or its iterator raises  stream to any      it is seen
    at once     up to eight accepted calls, of one client and of two        each method        the transport makes it
                the same, a call of each method                             all methods        the transport makes it
    rounds      after equal calls at once                                   all methods        the transport makes it
    rounds      after calls cancelled while their handler ran, and a pause  all methods        the transport makes it
    rounds      of two clients in turns that have connected anew            all methods        the transport makes it
    left        a call that is left after two items                         stream to any      a fresh pair has it too

The transport makes it: it is there on a fresh pair too, and on no two servers on ports; each is asked all that was
asked before. A method whose answers in rounds differ without a transport is mixed: no later phase counts one of it.
Calls at once excuse no others: servers on ports get them in both orders, and what hangs on that shows in rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.parity.parity_evidence import AskedCall
from lucky_transport_migration.parity.request_table import RequestTable
from lucky_transport_migration.parity.service_call import ServiceCall, smaller
from lucky_transport_migration.parity.service_pair import ROUNDS, RowCall, ServerPair
from lucky_transport_migration.parity.service_parity import ServiceParity

#: Asks a pair; returns what counts, None = nothing of it.
Ask = Callable[[ServerPair], Sequence[AskedCall] | None]

#: Of calls at once: how many, and what each has at most, in bytes and seconds.
_AT_ONCE, _AT_ONCE_BYTES, _AT_ONCE_S = 8, 10_000, 0.2
#: In a round of all methods each has calls with plain values of these numbers, one which was accepted, so many that are
#: smaller, and one which was refused. The second round goes backwards, and so asks some methods for a value before
#: another one has made it; the third asks them again.
_SMALLER, _NEW = 4, ((1001,), (1001, 1002), (1001, 1002))

#: How requests of a stream end otherwise than by a half-close.
_ENDS = {"held": "half-closed only when it has ended", "raises": "its iterator of requests raises after the last"}


@dataclass(slots=True)
class Interleaving:
    """The phases of one proof. fresh: makes another pair, not started. drawn: asks a pair all drawn calls. write: what
    takes evidence. plain: makes plain requests.
    """

    pair: ServerPair
    parity: ServiceParity
    fresh: Callable[[str], ServerPair]
    drawn: Callable[[ServerPair], None]
    write: Callable[[Evidence], None]
    plain: RequestTable
    #: By method without a difference: the calls that were answered soon, those that were refused and the others.
    _refused: dict[str, list[ServiceCall]] = field(default_factory=dict[str, list[ServiceCall]])
    _accepted: dict[str, list[ServiceCall]] = field(default_factory=dict[str, list[ServiceCall]])
    #: Of each method whose responses are a stream the last accepted call, which may be slow.
    _streams: dict[str, ServiceCall] = field(default_factory=dict[str, ServiceCall])
    #: What was asked, to be asked of fresh pairs.
    _asked: list[Ask] = field(default_factory=list[Ask])
    #: Methods whose answers hang on other calls, and why a difference of them says nothing of a transport.
    _mixed: dict[str, str] = field(default_factory=dict[str, str])

    def keep(self, asked: AskedCall) -> None:
        """Take a call that was answered alike, for later, where it is small and quick."""
        name, call = asked.evidence.method, asked.call
        sides = [side for side in (asked.evidence.primary, asked.evidence.shadow) if side]
        self._accepted.setdefault(name, [])
        is_quick = all(side.us < _AT_ONCE_S * 1e6 for side in sides)
        is_accepted = all(side.code in ("OK", CANCELLED) for side in sides)
        if is_quick and not call.deadline and sum(map(len, call.requests)) <= _AT_ONCE_BYTES:
            (self._accepted if is_accepted else self._refused).setdefault(name, []).append(call)
        if is_accepted and self.parity.rows[name].stream:
            self._streams[name] = replace(call, cancel_after=2, deadline="")

    def leave_out(self, name: str) -> None:
        """Make no more calls of this method: it differs."""
        self._accepted.pop(name, None)

    def prove(self) -> None:
        """Go through the phases."""
        shown = self._rounds("in rounds of all methods")
        shown += self._rounds("in rounds of all methods, of two clients in turns", clients=(0, 1), rounds=2 * len(_NEW))
        for asked, when in shown:  # not before: the second rounds may show that a method which differed is mixed
            self.take(asked, when)
        chosen = [(self.parity.rows[name], one) for name, calls in self._accepted.items() for one in calls[-1:]]
        ways = ((2, "without the given metadata"), (3, "with other values of it"))
        for client, how in ways if self.pair.command.metadata else ():
            for asked in self._ask(chosen, (client,)):
                self.take(asked, how)
        for prove in (self._turns, self._ends, self._at_once):
            for row in map(self.parity.rows.__getitem__, tuple(self._accepted)):
                if not self.parity.lost:
                    prove(row)
                    self.parity.look(row.name, self.pair.ended())
        if self.parity.lost or not self._accepted:
            return
        if len(self.parity.rows) > 1:
            self._together(chosen[:_AT_ONCE], "calls of different methods at once")
        unary = [(row, call) for row, call in chosen if not (row.stream or row.requests_stream)]
        for leave, when in (
            (partial(ServerPair.repeat, calls=chosen), "after calls at once and without an end"),
            (partial(ServerPair.cancel, calls=unary), "after cancelled calls and a pause"),
            (ServerPair.connect_anew, "of two clients that have connected anew"),
        ):
            self._asked.append(leave)
            leave(self.pair)
            for one in self._rounds(f"in rounds of all methods, {when}", clients=(0, 1)):
                self.take(*one)
        for name in filter(self._accepted.__contains__, self._streams):
            asked = self.pair.ask(self.parity.rows[name], call := self._streams[name])
            self.take(self._ask_fresh(name, call) if asked.differs else asked, "left early")

    def take(self, asked: AskedCall, what: str) -> None:
        """Count a call that was made in a way of its own, unless its answer may hang on other calls."""
        if asked.differs and asked.evidence.method in self._mixed:
            return
        counts = self.parity.methods[asked.evidence.method]
        counts.add(asked.evidence)
        self.write(asked.evidence)
        if asked.differs and counts.first_difference is None:
            counts.first_difference = asked.located(self.parity.calls - 1, what)
            self.leave_out(asked.evidence.method)

    def _rounds(self, when: str, clients: Sequence[int] = (0,), rounds: int = len(_NEW)) -> list[tuple[AskedCall, str]]:
        """Make calls of all methods by turns, so that what a call of one changes shows in answers of another. Return
        the first of each method that differs, with `when`.

        Of clients each makes the next call, and after the first rounds all calls of the next round.
        """
        several: list[list[RowCall]] = []
        for name, accepted in self._accepted.items():
            refused = self._refused.get(name, [])[:1]
            if whole := [one for one in accepted[:_AT_ONCE] if one.cancel_after is None] or refused:
                row, first = self.parity.rows[name], max(whole, key=lambda one: len(one.messages))
                few = (first, *islice(smaller(first, requests_stream=row.requests_stream), _SMALLER), *refused)
                several.append([(row, call) for call in few])
        if self.parity.lost:
            return []
        asked: list[AskedCall] = []
        for number in range(rounds):
            nth, calls = number % len(_NEW), list[RowCall]()
            turn = -1 if nth == 1 else 1
            for few in several[::turn]:
                row, first = few[0]
                plain = [replace(first, messages=(self.plain.plain(row.request, at),)) for at in _NEW[nth]]
                calls += [*((row, call) for call in plain), *few][::turn]
            asked += self._ask(calls, clients if number == nth else clients[number % 2 :][:1])
        found = {one.evidence.method: one for one in reversed(asked) if one.differs}
        self._mixed |= self._excuses(found.keys())
        for name in self._mixed.keys() & found.keys():
            self.parity.left[f"what other calls change in answers of {name}"] = self._mixed[name]
            self.parity.look(name, self.pair.ended())
        return [(one, when) for one in found.values()]

    def _excuses(self, names: Collection[str], also: Ask | None = None) -> dict[str, str]:
        """Return the methods in whose answers the transport makes no difference, and why: there is one on two servers
        on ports, fresh ones or asked all drawn calls first, or none on such a fresh pair. also: calls at once.
        """
        excused = {name: why for name, why in self._mixed.items() if name in names}
        for other, is_drawn in ((CONTROL, False), (CONTROL, True), (CANDIDATE, True), (CONTROL, True)):
            wanted, differing = set(names) - excused.keys(), set[str]()
            if not wanted:
                break
            with self.fresh(other) as pair:
                if is_drawn:
                    self.drawn(pair)
                for ask in [*self._asked, *([also] if also else [])] * ROUNDS:
                    differing |= {one.evidence.method for one in ask(pair) or () if one.differs}
                    if wanted <= differing:
                        break
            why = "two servers on ports differ so too" if other == CONTROL else "on fresh servers it does not differ"
            excused |= dict.fromkeys(wanted & differing if other == CONTROL else wanted - differing, why)
        return excused

    def _turns(self, row: ServiceMethod) -> None:
        """Make an accepted call with each request sent after an item, so that one which comes late is found.

        A handler that answers over gRPC only when it has a further request gets one more ahead.
        """
        calls = [one for one in self._accepted[row.name] if len(one.messages) > 2]
        if not (row.requests_stream and row.stream and calls):
            return
        for ahead in (1, 2):
            (asked,) = self._ask([(row, replace(calls[0], ahead=ahead))])
            if not asked.evidence.primary.local:
                self.take(asked, "in turns")
                return
        self.parity.left[f"the order between requests and responses of {row.name}"] = "over gRPC an item needs the next"

    def _ends(self, row: ServiceMethod) -> None:
        """Make a call with the requests of all accepted ones that is half-closed only when it has ended, so that an end
        which has to come before is found. Where none comes over gRPC, the iterator of the same requests raises.
        """
        messages = tuple(message for call in self._accepted[row.name] for message in call.messages)
        if not row.requests_stream:
            return
        if not messages:
            self.parity.left[f"how {row.name} ends without a half-close"] = "it accepted none that is small and quick"
            return
        for ends, what in _ENDS.items():
            calls = [(row, ServiceCall(messages if ends == "held" else messages[:_SMALLER], ends=ends))]
            (asked,) = self._ask(calls)
            if ends == "raises" and asked.differs:  # an end that was slow may have come first this time
                (asked,) = self._ask(calls)
            if not asked.evidence.primary.local:
                self.take(asked, what)
                if ends == "held" and asked.evidence.primary.code != "OK":
                    self.parity.left[f"ends of {row.name} before the half-close"] = "it refuses all requests together"
                return

    def _at_once(self, row: ServiceMethod) -> None:
        """Make accepted calls of one method at once."""
        accepted = self._accepted[row.name]
        calls = [(row, call) for call in accepted[:: len(accepted) // _AT_ONCE + 1]]
        self._together(calls, f"calls of {row.name} at once")

    def _together(self, calls: Sequence[RowCall], what: str) -> None:
        """Make calls at once. A difference counts where each call alone is answered alike, and where two servers on
        ports answer alike too, whichever call comes first.
        """
        if len(calls) < 2:
            self.parity.left[what] = "the server accepted fewer than two that are small and quick"
            return
        for clients, of in ((1, "at once"), (2, "of two clients at once")):
            ask = partial(ServerPair.ask_at_once, calls=calls, clients=clients)
            self._asked.append(lambda pair, ask=ask: ask(pair) and None)  # their order excuses no other call
            found = (one for one in ask(self.pair) if one.differs)
            asked = min(found, key=lambda one: one.evidence.method in self._mixed, default=None)
            if asked is None:
                continue
            if self.pair.ask(self.parity.rows[name := asked.evidence.method], asked.call).differs:
                self.parity.left[what] = "calls before them changed the server's answers; the last rounds look at that"
            elif why := self._excuses([name], ask).get(name):
                self.parity.left[what] = f"the server's answers hang on which of them comes first: {why}"
            else:
                self.take(asked, of)
            return

    def _ask_fresh(self, name: str, call: ServiceCall) -> AskedCall:
        """Ask another pair after all drawn calls: what a handler has done when its stream is left is chance, so a
        difference says nothing where other streams were left before.
        """
        with self.fresh(CANDIDATE) as pair:
            self.drawn(pair)
            return pair.ask(self.parity.rows[name], call)

    def _ask(self, calls: Sequence[RowCall], clients: Sequence[int] = (0,)) -> list[AskedCall]:
        """Ask the pair one by one, as these clients in turns, and fresh pairs later."""

        def ask(pair: ServerPair) -> list[AskedCall]:
            return [pair.ask(*one, client=clients[at % len(clients)]) for at, one in enumerate(calls)]

        self._asked.append(ask)
        return ask(self.pair)
