"""Differences that calls make to each other are found: by rounds, at once, of several clients, after calls that went.

The servers are those of `test_drawn_plants.py`.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CallOutcome
from tests.planted.desk import Answer, Desk, Prove
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc_tools")


def must_name(prove: Prove, answer: Answer, *words: str, **given: Any) -> None:
    """Fail unless a difference with these words is found in twenty answers of each method."""
    outcome = prove(answer=answer, **{"count": 20, **given})
    assert outcome.first_difference is not None
    assert all(word in outcome.sentence for word in words), outcome.sentence


@pytest.mark.parametrize("method", ["Echo", "Mark"])  # the one that makes the state
def test_answers_that_hang_on_their_order_are_left_out_and_said(method: str, prove: Prove) -> None:
    asked = Counter[int]()

    def numbered(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Number the answers, alike as long as no call of shared memory overtakes another."""
        if not asked[id(self)] and not row.name.endswith(method):
            return found
        asked[id(self)] += 1
        is_alone = threading.current_thread() is threading.main_thread()
        overtaken = 0 if is_alone or self.transport != CANDIDATE else 1
        return replace(found, trailing=(("number", str(asked[id(self)] + overtaken)),))

    outcome = prove(count=20, answer=numbered)
    assert outcome.equal, outcome.sentence
    assert "hang on which of them comes first" in outcome.left["calls of /lab.Desk/Echo at once"]


@pytest.mark.parametrize("keeps", ["shm", "one of two", "none"])
@pytest.mark.parametrize(("writes", "reads"), [("Echo", "Mark"), ("Mark", "Echo")])
def test_an_answer_that_is_kept_over_a_call_of_another_method_is_found(
    writes: str, reads: str, keeps: str, prove: Prove
) -> None:
    """Where one of two servers on ports keeps it too, no transport is blamed."""
    stored, kept = defaultdict[Desk, dict[str, Any]](dict), defaultdict[Desk, dict[str, Any]](dict)

    def remembers(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Answer with what was written under the text."""
        text = row.request.FromString(b"".join(requests[-1:])).text
        if row.name.endswith(writes):
            stored[self][text] = {"items": found.items}
        if not row.name.endswith(reads):
            return found
        now = stored[self].get(text, {"items": [], "code": "NOT_FOUND"})
        before = kept[self].setdefault(text, now)
        is_kept = keeps == self.transport or (keeps == "one of two" and list(kept).index(self) % 2)
        return replace(found, **(before if is_kept else now))

    outcome = prove(count=20, answer=remembers)
    assert (outcome.first_difference is not None) == (keeps == "shm"), outcome.sentence
    assert ("in rounds of all methods" in outcome.sentence) == (keeps == "shm")
    assert len(kept) < 30, "a method that differs is called no more"
    assert (f"what other calls change in answers of /lab.Desk/{reads}" in outcome.left) == (keeps == "one of two")


#: What shared memory forgets or keeps when -> whether that has come, and in which rounds it shows.
LEFT_BEHIND: dict[str, tuple[Callable[[Desk], bool], str]] = {
    "a call at once": (lambda desk: threading.current_thread() is not threading.main_thread(), "after calls at once"),
    "a cancelled call": (lambda desk: desk.cancelled > 0, "after cancelled calls and a pause"),
    "an earlier connection": (lambda desk: desk.connections > 1, "of two clients that have connected anew"),
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_calls_leave_behind_is_found(what: str, prove: Prove) -> None:
    total = Counter[Desk]()
    comes, when = LEFT_BEHIND[what]

    def counts(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Count the calls of one method; shared memory loses some. Others tell the number."""
        if row.name.endswith("Echo"):
            return replace(found, trailing=(("total", str(total[self])),))
        total[self] += self.transport != CANDIDATE or not comes(self)
        return found

    must_name(prove, counts, when, "total")


@pytest.mark.parametrize("loses", [False, True])
def test_items_of_a_stream_that_is_left_are_compared_and_not_how_far_its_handler_ran(loses: bool, prove: Prove) -> None:
    stored = Counter[Desk]()

    def runs_ahead(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Tell what left streams have stored; a handler in shared memory is further ahead, and may lose an item."""
        found = replace(found, trailing=(("stored", str(stored[self])),))
        stored[self] += (self.left or 0) * (9 if self.transport == CANDIDATE else 1)
        is_lost = loses and self.left == 2 and self.transport == CANDIDATE
        return replace(found, items=found.items[1:]) if is_lost else found

    outcome = prove(count=20, answer=runs_ahead)
    assert outcome.equal != loses, outcome.sentence
    assert ("left early" in outcome.sentence) == loses


def test_equal_calls_at_once_that_are_taken_for_one_are_found(prove: Prove) -> None:
    total, made = Counter[Desk](), set[tuple[bytes | str, ...]]()

    def takes_for_one(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Count the calls of one method, of equal ones at once in shared memory the first. Others tell the number."""
        if row.name.endswith("Echo"):
            return replace(found, trailing=(("total", str(total[self])),))
        batch = threading.current_thread().name.rpartition("_")[0]
        is_again = bool(batch) and (batch, row.name, *requests) in made
        made.add((batch, row.name, *requests))
        total[self] += self.transport != CANDIDATE or not is_again
        return found

    must_name(prove, takes_for_one, "after calls at once", "total", count=30)


def test_what_a_server_stores_by_chance_is_blamed_on_no_transport(prove: Prove) -> None:
    servers, stored = count(), dict[Desk, int]()

    def stores(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Store a number of the server's own in calls of one method. Others tell it."""
        if row.name.endswith("Echo"):
            stored.setdefault(self, next(servers))
            return found
        return replace(found, trailing=(("stored", str(stored.get(self))),))

    outcome = prove(count=20, answer=stores)
    assert outcome.first_difference is None
    assert set(outcome.itself) == {"/lab.Desk/Mark", "/lab.Desk/Add"}


@pytest.mark.parametrize("at", [2, 4, 7, 11, None])
def test_what_servers_on_ports_differ_in_now_and_then_is_no_difference(at: int | None, prove: Prove) -> None:
    """Of the servers on ports the one of this number has it, none where it is None."""
    total, ports = Counter[Desk](), list[Desk]()

    def by_chance(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Tell in calls of one method, once others were made, what shared memory has and servers on ports seldom."""
        if self.transport != CANDIDATE and self not in ports:
            ports.append(self)
        if not row.name.endswith("Echo"):
            total[self] += 1
            return found
        has_it = self.transport == CANDIDATE or ports.index(self) == at
        return replace(found, trailing=(("has it", str(has_it)),)) if total[self] else found

    outcome = prove(count=20, answer=by_chance)
    assert (outcome.first_difference is None) == (at is not None), outcome.sentence
    assert ("what other calls change in answers of /lab.Desk/Echo" in outcome.left) == (at is not None)


@pytest.mark.parametrize(("client", "how"), [(3, "without the given metadata"), (4, "with other values of it")])
def test_a_check_of_metadata_that_is_not_made_is_found(client: int, how: str, prove: Prove) -> None:
    def checks(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        is_refused = self.client == client and self.transport != CANDIDATE
        return replace(found, items=[], code="PERMISSION_DENIED") if is_refused else found

    must_name(prove, checks, how, "PERMISSION_DENIED", metadata=(("authorization", "Bearer abcdefgh"),))


def test_once_a_server_has_ended_no_other_method_is_blamed(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = set[str]()
    monkeypatch.setattr(Desk, "exit_report", lambda desk, within_s=0.0: "exit status 1" if dead else "")

    def ends(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        if threading.current_thread() is not threading.main_thread():
            dead.add(row.name)
        is_gone = bool(dead) and self.client > 2 and self.transport == CANDIDATE
        return replace(found, items=[], code="UNAVAILABLE") if is_gone else found

    outcome = prove(count=20, answer=ends, metadata=(("authorization", "Bearer abcdefgh"),))
    assert "a server ended in calls of" in outcome.sentence
    assert outcome.first_difference is None


@pytest.mark.parametrize("hangs_on_order", [False, True])
def test_a_session_that_two_clients_share_is_found(prove: Prove, hangs_on_order: bool) -> None:
    own, order = defaultdict[Desk, list[Any]](list), count()

    def names(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Keep the last request of one method for each client; shared memory keeps it for all. Others tell its size."""
        kept = self.session if self.transport == CANDIDATE else own[self]
        if hangs_on_order and threading.current_thread() is not threading.main_thread():
            return replace(found, trailing=(("order", str(next(order))),))
        if row.name.endswith("Echo"):
            return replace(found, trailing=(("kept", str(kept)),))
        if row.name.endswith("Add"):
            kept[:] = map(len, requests)
        return found

    must_name(prove, names, "kept")


def test_calls_of_different_methods_that_disturb_each_other_are_found(prove: Prove) -> None:
    came, batches = threading.Condition(), defaultdict[str, list[str]](list)

    def disturbs(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Wait for another call of those at once; shared memory answers wrong where it is of another method."""
        if threading.current_thread() is threading.main_thread():
            return found
        batch = batches[threading.current_thread().name.rpartition("_")[0]]
        with came:
            batch.append(row.name)
            came.notify_all()
            assert came.wait_for(lambda: len(batch) > 1, PATIENCE_S)
        is_wrong = self.transport == CANDIDATE and batch[0] != batch[1]
        return replace(found, details="disturbed") if is_wrong else found

    must_name(prove, disturbs, "(at once)", "disturbed")


def test_what_a_server_keeps_of_each_client_is_blamed_on_no_transport(prove: Prove) -> None:
    numbers, kept = count(1), dict[Desk, int]()

    def keeps(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Keep of the second client which of its calls at once came last, and tell it that in another method."""
        if row.name.endswith("Echo") and self.client == 2:
            kept[self] = next(numbers)
        told = kept.get(self, 0) if row.name.endswith("Mark") else 0
        return replace(found, trailing=(("last", str(told)),))

    outcome = prove(count=20, answer=keeps)
    assert outcome.equal, outcome.sentence
    assert "calls of /lab.Desk/Mark at once" in outcome.left


def test_what_a_client_keeps_until_it_writes_itself_is_found(prove: Prove) -> None:
    written, kept = Counter[int](), dict[Desk, int]()

    def keeps(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Count the calls of one method; in shared memory a client is told the number of its own last call."""
        server = id(self.session)
        if row.name.endswith("Echo"):
            written[server] += 1
            kept.pop(self, None)
        if not row.name.endswith("Mark"):
            return found
        now = written[server]
        told = kept.setdefault(self, now) if self.transport == CANDIDATE else now
        return replace(found, trailing=(("total", str(told)),))

    must_name(prove, keeps, "of two clients in turns", "total")


def test_trailing_metadata_of_a_refused_call_that_comes_again_is_found(prove: Prove) -> None:
    refused = dict[Desk, str]()

    def repeats(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Refuse some calls of one method, and say why; shared memory says it again in the next call of another one."""
        before = refused.pop(self, "")
        if row.name.endswith("Echo"):
            if row.request.FromString(requests[0]).text in ("A", "a"):
                refused[self] = "a letter"
                return replace(
                    found, items=[], code="INVALID_ARGUMENT", trailing=(*found.trailing, ("why", "a letter"))
                )
            return found
        is_told = bool(before) and self.transport == CANDIDATE
        return replace(found, trailing=(*found.trailing, ("why", before))) if is_told else found

    must_name(prove, repeats, "in rounds of all methods", "why")
