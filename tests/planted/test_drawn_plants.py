"""Differences that only certain calls show are found by the calls that `parity --server` draws by default.

The servers are in this process: one handler, which answers with what it got. In shared memory it meets a plant.
"""

import subprocess
import sys
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CallOutcome
from lucky_transport_migration.parity import service_pair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_proof import ServiceProof
from lucky_transport_migration.parity.service_servers import ServerCommand
from tests.planted.desk import Answer, Desk, Plant, Seen
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc_tools")

_PROTO = Path(__file__).with_name("desk.proto").read_text()


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's descriptor set."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.proto").write_text(_PROTO)
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--include_imports", "--descriptor_set_out=desk.binpb"]
    subprocess.run([*command, "desk.proto"], cwd=folder, check=True)
    return folder / "desk.binpb"


@pytest.fixture
def prove(described: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(service_pair, "RunningServer", Desk)

    def prove(plant: Plant = Desk.plant, method: str = "Desk/*", answer: Answer = Desk.answer, **given: Any) -> Any:
        monkeypatch.setattr(Desk, "plant", staticmethod(plant))
        monkeypatch.setattr(Desk, "answer", staticmethod(answer))
        command = ServerCommand("x {port}", metadata=given.pop("metadata", ()))
        return ServiceProof(command, [described], pattern=method, **given).prove()

    return prove


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
    "map cut at 5": (each(_few_counts), "counts"),
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
def test_a_difference_that_only_certain_calls_show_is_found(name: str, prove: Callable[..., Any]) -> None:
    plant, *words = PLANTS[name]
    method = ADD if ADD in words else ECHO
    outcome = prove(plant, method)
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    text = f"{first.sentence()} {first.plain()}"
    assert method in text
    assert all(word in text for word in words), text


def test_without_a_plant_all_is_equal(prove: Callable[..., Any]) -> None:
    outcome = prove()
    assert outcome.equal, outcome.sentence
    assert {name: row.calls for name, row in outcome.methods.items()} == {
        "/lab.Desk/Echo": 100,
        "/lab.Desk/Mark": 102,  # once in turns, once with an iterator that raises
        "/lab.Desk/Add": 102,
    }
    assert not [what for what in outcome.left if "at once" in what and "more than eight" not in what]


def test_items_that_all_come_at_the_end_are_no_difference_and_show_in_the_times(
    prove: Callable[..., Any],
) -> None:

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
def test_an_end_that_comes_only_after_the_half_close_is_found(late: str, prove: Callable[..., Any]) -> None:

    def ends(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        return found if self.ends != "held" or late == self.transport else replace(found, code="OK", is_local=False)

    outcome = prove(method=ADD, answer=ends)
    assert outcome.equal == (late != CANDIDATE), outcome.sentence
    assert outcome.equal or "half-closed only when it has ended" in outcome.sentence


def test_an_iterator_that_raises_unnoticed_is_found(prove: Callable[..., Any]) -> None:

    def quiet(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        is_quiet = self.transport == CANDIDATE and self.ends == "raises"
        return replace(found, code="OK") if is_quiet else found

    outcome = prove(method=ADD, answer=quiet)
    assert "grpc 'UNKNOWN', shm 'OK'" in outcome.sentence
    assert "its iterator of requests raises" in outcome.sentence


@pytest.mark.parametrize(("slow", "is_equal"), [("grpc", True), (CANDIDATE, False), ("both", True)])
def test_what_the_proof_cancels_itself_is_late_and_its_end_is_not_compared(
    slow: str, is_equal: bool, prove: Callable[..., Any]
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


def test_a_slow_method_makes_no_short_deadline_of_another_longer(prove: Callable[..., Any]) -> None:
    outcome = prove(lambda seen: replace(seen, seconds=seen.seconds and max(seen.seconds, 3.0)))
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    assert "Desk/Mark" in first.sentence()
    assert "'2 s'" in first.sentence()


def test_the_call_that_is_shown_has_the_kind_of_difference_that_was_found(prove: Callable[..., Any]) -> None:
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


def test_a_smaller_call_that_differs_otherwise_is_not_shown(prove: Callable[..., Any]) -> None:
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


@pytest.mark.parametrize("method", ["Echo", "Mark"])  # the one that makes the state
def test_answers_that_hang_on_their_order_are_left_out_and_said(method: str, prove: Callable[..., Any]) -> None:
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
    writes: str, reads: str, keeps: str, prove: Callable[..., Any]
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

    outcome = prove(answer=remembers)
    assert (outcome.first_difference is not None) == (keeps == "shm"), outcome.sentence
    assert ("in rounds of all methods" in outcome.sentence) == (keeps == "shm")
    assert (f"what other calls change in answers of /lab.Desk/{reads}" in outcome.left) == (keeps == "one of two")


#: What shared memory forgets or keeps when -> whether that has come, and in which rounds it shows.
LEFT_BEHIND: dict[str, tuple[Callable[[Desk], bool], str]] = {
    "a call at once": (lambda desk: threading.current_thread() is not threading.main_thread(), "after calls at once"),
    "a cancelled call": (lambda desk: desk.cancelled > 0, "cancelled"),
    "an earlier connection": (lambda desk: desk.connections > 1, "of two clients that have connected anew"),
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_calls_leave_behind_is_found(what: str, prove: Callable[..., ServiceParity]) -> None:
    total = Counter[Desk]()
    comes, when = LEFT_BEHIND[what]

    def counts(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Count the calls of one method; shared memory loses some. Others tell the number."""
        if row.name.endswith("Echo"):
            return replace(found, trailing=(("total", str(total[self])),))
        total[self] += self.transport != CANDIDATE or not comes(self)
        return found

    outcome = prove(count=20, answer=counts)
    assert not outcome.equal
    assert when in outcome.sentence
    assert "total" in outcome.sentence


@pytest.mark.parametrize(("client", "how"), [(3, "without the given metadata"), (4, "with other values of it")])
def test_a_check_of_metadata_that_is_not_made_is_found(
    client: int, how: str, prove: Callable[..., ServiceParity]
) -> None:
    def checks(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        is_refused = self.client == client and self.transport != CANDIDATE
        return replace(found, items=[], code="PERMISSION_DENIED") if is_refused else found

    outcome = prove(count=20, answer=checks, metadata=(("authorization", "Bearer abcdefgh"),))
    assert how in outcome.sentence
    assert "PERMISSION_DENIED" in outcome.sentence


def test_once_a_server_has_ended_no_other_method_is_blamed(
    prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_session_that_two_clients_share_is_found(prove: Callable[..., ServiceParity], hangs_on_order: bool) -> None:
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

    outcome = prove(count=20, answer=names)
    assert not outcome.equal
    assert "kept" in outcome.sentence


def test_calls_of_different_methods_that_disturb_each_other_are_found(prove: Callable[..., ServiceParity]) -> None:
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

    outcome = prove(count=20, answer=disturbs)
    assert not outcome.equal
    assert "(at once)" in outcome.sentence
    assert "disturbed" in outcome.sentence


def test_what_a_server_keeps_of_each_client_is_blamed_on_no_transport(prove: Callable[..., ServiceParity]) -> None:
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


def test_a_method_that_refuses_most_calls_is_named_among_what_was_not_compared(
    prove: Callable[..., Any],
) -> None:

    def picky(self: Desk, row: ServiceMethod, requests: list[bytes], found: CallOutcome) -> CallOutcome:
        """Refuse all but an empty request, as a server does that checks a length."""
        return replace(found, items=[], code="INVALID_ARGUMENT") if any(requests) else found

    outcome = prove(each(lambda note: note.list.clear()), ECHO, answer=picky)
    assert outcome.equal, outcome.sentence
    assert "of 100 calls" in outcome.not_compared["most of /lab.Desk/Echo"]


def test_what_the_table_has_beyond_the_requests_asked_for_is_said(prove: Callable[..., Any]) -> None:
    outcome = prove(method=ECHO, count=20)
    assert outcome.equal
    assert "cases of requests of /lab.Desk/Echo beyond the first 20" in outcome.left
