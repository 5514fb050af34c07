"""Differences that only certain calls show are found by the calls that `parity --server` draws by default.

The servers are in this process: one handler, which answers with what it got. In shared memory it meets a plant.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CallOutcome
from tests.planted.desk import Desk, Plant, Prove, Seen

pytest.importorskip("grpc_tools")


def each(change: Callable[[Any], object]) -> Plant:
    """Plant something into each request."""

    def plant(seen: Seen) -> None:
        for note in seen.notes:
            change(note)

    return plant


def cut(count: int) -> Plant:
    return each(lambda note: note.list.__delitem__(slice(count, None)))


def pairs(change: Callable[[Metadata], Metadata]) -> Plant:
    """Plant something into the metadata."""
    return lambda seen: replace(seen, metadata=change(seen.metadata))


def _few_counts(note: Any) -> None:
    for key in sorted(note.counts)[5:]:
        del note.counts[key]


def _without(note: Any, at: int) -> None:
    del note[at : at + 1]


def _without_equal(seen: Seen) -> Seen:
    return replace(seen, notes=[note for note, _ in groupby(seen.notes)])


ECHO, ADD = "Desk/Echo", "Desk/Add"
#: By name: the plant, and words of the report, among them the method that shows it where that is not Echo.
PLANTS: dict[str, tuple[Any, ...]] = {
    "second client": (
        lambda seen: replace(seen, notes=seen.notes[:0]) if seen.client == 2 else None,
        "of two clients in turns",
    ),
    "second client at once": (
        lambda seen: replace(seen, notes=seen.notes[:0]) if seen.client == 2 and not seen.is_alone else None,
        "of two clients at once",
    ),
    "crossed calls": (lambda seen: None if seen.is_alone else replace(seen, notes=seen.before or []), "at once"),
    "equal calls taken for one": (
        lambda seen: replace(seen, notes=[]) if seen.notes == seen.before else None,
        "0 items",
    ),
    "wrong under load": (lambda seen: None if seen.is_alone else replace(seen, metadata=()), "at once"),
    "list sorted": (each(lambda note: note.list.sort()), "list"),
    "number by a double": (each(lambda note: setattr(note, "number", int(float(note.number)) % 2**63)), "number"),
    "denormal lost": (each(lambda note: setattr(note, "x", 0.0) if abs(note.x) < 2.3e-308 else None), "x"),
    "minus zero lost": (each(lambda note: setattr(note, "x", note.x + 0.0)), "x", "-0.0"),
    "NFC": (each(lambda note: setattr(note, "text", unicodedata.normalize("NFC", note.text))), "text"),
    "trimmed": (each(lambda note: setattr(note, "text", note.text.strip())), "text"),
    "default dropped": (each(lambda note: note.level or note.ClearField("level")), "level"),
    "list cut at 2": (cut(2), "list"),
    "list cut at 99": (cut(99), "list"),
    "list cut at 1000": (cut(1000), "list"),
    "a list of zeros lost": (each(lambda note: any(note.list) or (note.list[1:] and note.ClearField("list"))), "list"),
    "map cut at 5": (each(_few_counts), "counts"),
    "bytes of 8 to 48 KiB cut": (
        each(lambda note: 2**13 < len(note.blob) < 3 * 2**14 and setattr(note, "blob", note.blob[: 2**13])),
        "blob",
    ),
    "bytes cut at 64 KiB": (each(lambda note: setattr(note, "blob", note.blob[: 2**16])), "blob"),
    "text cut at 1 MiB": (each(lambda note: setattr(note, "text", note.text[: 2**20])), "text"),
    "last request lost": (lambda seen: _without(seen.notes, 5) if len(seen.notes) > 5 else None, ADD, "requests ["),
    "fifth request lost": (lambda seen: _without(seen.notes, 4), ADD, "requests ["),
    "request 999 lost": (lambda seen: _without(seen.notes, 998), ADD, "requests ["),
    "equal request lost": (_without_equal, ADD, "requests ["),
    "binary metadata lost": (pairs(lambda given: tuple(one for one in given if "-bin" not in one[0])), "-bin"),
    "binary metadata padded": (
        pairs(lambda given: tuple((k, v[: len(v) // 3 * 3] if "-bin" in k else v) for k, v in given)),
        "-bin",
    ),
    "percent decoded": (each(lambda note: setattr(note, "text", note.text.replace("%41", "A"))), "%41"),
    "duplicates lost": (pairs(lambda given: tuple(dict(given).items())), "saw-lucky-parity"),
    "equal keys sorted": (pairs(lambda given: tuple(sorted(given))), "saw-lucky-parity"),
    "empty metadata lost": (pairs(lambda given: tuple(one for one in given if one[1])), "saw-lucky-parity"),
    "long metadata cut": (pairs(lambda given: tuple((k, v[:1000]) for k, v in given)), "saw-lucky-parity"),
    "a deadline for all": (lambda seen: replace(seen, seconds=seen.seconds or 60.0), "no deadline", "'none'"),
    "long deadlines cut": (
        lambda seen: replace(seen, seconds=seen.seconds and min(seen.seconds, 3600.0)),
        "a long deadline",
        "'a day'",
    ),
    "what an Any holds lost": (
        each(lambda note: note.any.ClearField("value") if note.any.type_url.endswith("lab.Note") else None),
        "any",
        "lab.Note",
    ),
    "an Any of a type lost": (
        each(lambda note: note.ClearField("any") if note.any.type_url.endswith("lab.Stamp") else None),
        "any",
        "lab.Stamp",
    ),
    "an Any of another URL lost": (
        each(lambda note: note.any.type_url.startswith("types.example.com/own/") and note.ClearField("any")),
        "any",
        "types.example.com/own",
    ),
    "unknown fields lost": (each(lambda note: note.DiscardUnknownFields()),),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_difference_that_only_certain_calls_show_is_found(name: str, prove: Prove) -> None:
    plant, *words = PLANTS[name]
    method = ADD if ADD in words else ECHO
    outcome = prove(plant, method)
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    text = f"{first.sentence()} {first.plain()}"
    assert method in text
    assert all(word in text for word in words), text


def test_without_a_plant_all_is_equal(prove: Prove) -> None:
    outcome = prove()
    assert outcome.equal, outcome.sentence
    assert {name: row.calls for name, row in outcome.methods.items()} == {
        "/lab.Desk/Echo": 100,
        "/lab.Desk/Mark": 103,  # once in turns, once with an iterator that raises, once left early
        "/lab.Desk/Add": 103,
    }
    assert not [what for what in outcome.left if "at once" in what and "more than eight" not in what]


def test_items_that_all_come_at_the_end_are_no_difference_and_show_in_the_times(prove: Prove) -> None:

    def late(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        return replace(found, first_us=90.0 if self.transport == CANDIDATE else 10.0)

    outcome = prove(method=ADD, answer=late)
    assert outcome.equal, outcome.sentence
    found = outcome.plain()["times"]["/lab.Desk/Add"]
    assert found["call"] == (1.0, 1.0)
    assert found["first_item"] == pytest.approx((9.0, 9.0))
    heads, (row,) = outcome.table
    assert dict(zip(heads, row, strict=True))["× to the first item"] == "9.00 to 9.00"
    assert "Add: its first item comes 9.00 to 9.00 times as late" in outcome.offer


@pytest.mark.parametrize("late", [CANDIDATE, "grpc", "none"])
def test_an_end_that_comes_only_after_the_half_close_is_found(late: str, prove: Prove) -> None:

    def ends(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        return found if self.ends != "held" or late == self.transport else replace(found, code="OK", is_local=False)

    outcome = prove(method=ADD, answer=ends)
    assert outcome.equal == (late != CANDIDATE), outcome.sentence
    assert outcome.equal or "half-closed only when it has ended" in outcome.sentence


def test_an_iterator_that_raises_unnoticed_is_found(prove: Prove) -> None:

    def quiet(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        is_quiet = self.transport == CANDIDATE and self.ends == "raises"
        return replace(found, code="OK") if is_quiet else found

    outcome = prove(method=ADD, answer=quiet)
    assert "grpc 'UNKNOWN', shm 'OK'" in outcome.sentence
    assert "its iterator of requests raises" in outcome.sentence


@pytest.mark.parametrize(("slow", "is_equal"), [("grpc", True), (CANDIDATE, False), ("both", True)])
def test_what_the_proof_cancels_itself_is_late_and_its_end_is_not_compared(
    slow: str, is_equal: bool, prove: Prove
) -> None:

    def cancels(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Take as long as the proof waits for a call without a deadline of its own."""
        is_slow = slow in (self.transport, "both") and found.trailing[0][1] in ("none", "a day")
        return replace(found, items=[], code="CANCELLED", is_local=True, trailing=()) if is_slow else found

    outcome = prove(method=ADD, answer=cancels)
    assert outcome.equal == is_equal, outcome.sentence
    if is_equal:
        assert outcome.methods["/lab.Desk/Add"].unseen or slow == "both"
    else:
        assert "(late)" in outcome.sentence
        assert "cancelled after 10 s" in outcome.sentence


def test_a_slow_method_makes_no_short_deadline_of_another_longer(prove: Prove) -> None:
    outcome = prove(lambda seen: replace(seen, seconds=seen.seconds and max(seen.seconds, 3.0)))
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    assert "Desk/Mark" in first.sentence()
    assert "'2 s'" in first.sentence()


def test_the_call_that_is_shown_has_the_kind_of_difference_that_was_found(prove: Prove) -> None:
    """As where gRPC cuts the details by which a server refuses what an earlier call of another method allows."""
    alone = set[int]()

    def refused(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        alone.update({id(self)} if row.name.endswith("Echo") else ())
        is_known = id(self) in alone or self.client == 2
        return found if is_known else replace(found, items=[], code="NOT_FOUND", details=self.transport)

    first = prove(PLANTS["fifth request lost"][0], answer=refused).first_difference
    assert first is not None
    assert "as drawn; not without the calls of other methods before it" in first.sentence()
    assert "details" not in first.sentence()


def test_a_smaller_call_that_differs_otherwise_is_not_shown(prove: Prove) -> None:
    told = set[int]()

    def tells(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Answer an empty request otherwise once there was a text."""
        told.update({id(self)} if row.request.FromString(b"".join(requests)).text else ())
        return found if any(requests) or id(self) not in told else replace(found, details=self.transport)

    longer = each(lambda note: setattr(note, "text", note.text and f"{note.text}!"))
    first = prove(longer, ECHO, answer=tells).first_difference
    assert first is not None
    assert "text of /lab.Desk/Echo differs (item)" in first.sentence()
    assert "the smallest found" in first.sentence()


def test_a_method_that_refuses_most_calls_is_named_among_what_was_not_compared(prove: Prove) -> None:

    def picky(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Refuse all but an empty request, as a server does that checks a length."""
        return replace(found, items=[], code="INVALID_ARGUMENT") if any(requests) else found

    outcome = prove(each(lambda note: note.list.clear()), ECHO, answer=picky)
    assert outcome.equal, outcome.sentence
    assert "of 100 calls" in outcome.not_compared["most of /lab.Desk/Echo"]


def test_what_the_table_has_beyond_the_requests_asked_for_is_said(prove: Prove) -> None:
    outcome = prove(method=ECHO, count=20)
    assert outcome.equal
    assert "cases of requests of /lab.Desk/Echo beyond the first 20" in outcome.left
