"""Differences that only certain calls show are found by the calls that `parity --server` draws by default.

The servers are in this process: one handler, which answers with what it got. In shared memory it meets a plant.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pytest

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CallOutcome
from lucky_transport_migration.parity import service_pair
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_proof import ServiceProof
from lucky_transport_migration.parity.service_servers import ServerCommand

pytest.importorskip("grpc_tools")

_PROTO = Path(__file__).with_name("desk.proto").read_text()


@dataclass(frozen=True)
class Seen:
    """A call as a handler sees it. client: 1, or 2 of another connection. is_alone: no other call is under way."""

    notes: list[Any]
    metadata: Metadata
    seconds: float | None
    client: int
    is_alone: bool


Plant = Callable[[Seen], Any]


class Desk(AbstractContextManager["Desk"]):
    """A server that runs; `plant` is what changes a call in shared memory."""

    plant: Plant = staticmethod(lambda seen: None)
    endpoint = "grpc://127.0.0.1:1"

    def __init__(self, command: ServerCommand, transport: str, client: int = 1) -> None:
        self.transport = transport
        self.client = client

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def caller(self) -> Self:
        return self

    @cached_property
    def second(self) -> Desk:
        return type(self)(ServerCommand("x {port}"), self.transport, 2)

    def exit_report(self, within_s: float = 0.0) -> str:
        return ""

    def ask(self, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        if (given["timeout_s"] or 0) < 0:
            return CallOutcome(self.transport, code="DEADLINE_EXCEEDED")
        alone = threading.current_thread() is threading.main_thread()
        notes = [row.request.FromString(one) for one in requests]
        seen = Seen(notes, given["metadata"], given["timeout_s"], self.client, alone)
        if self.transport == CANDIDATE:
            seen = self.plant(seen) or seen
        pairs = tuple((f"saw-{key}", value) for key, value in seen.metadata)
        deadline = "none" if seen.seconds is None else "a day" if seen.seconds > 86_400 else f"{seen.seconds:g} s"
        items = [one.SerializeToString(deterministic=True) for one in seen.notes]
        took_us = 150_000.0 if row.name.endswith("Echo") else 100.0
        return CallOutcome(self.transport, items, trailing=(("deadline", deadline), *pairs), took_us=took_us)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's descriptor set."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.proto").write_text(_PROTO)
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--descriptor_set_out=desk.binpb", "desk.proto"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "desk.binpb"


@pytest.fixture
def prove(described: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServiceParity]:
    monkeypatch.setattr(service_pair, "RunningServer", Desk)

    def prove(plant: Plant | None = None, method: str = "Desk/*", **given: Any) -> ServiceParity:
        if plant is not None:
            monkeypatch.setattr(Desk, "plant", staticmethod(plant))
        return ServiceProof(ServerCommand("x {port}"), [described], pattern=method, **given).prove()

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


def _crossed(seen: Seen) -> Seen:
    """Calls that are under way together get the answer of the one that came before."""
    last = getattr(_crossed, "last", seen)
    _crossed.last = seen  # type: ignore[attr-defined]
    return seen if seen.is_alone else replace(seen, notes=last.notes)


def _without(note: Any, at: int) -> None:
    del note[at : at + 1]


def _without_equal(seen: Seen) -> Seen:
    return replace(seen, notes=[note for note, _ in groupby(seen.notes)])


ECHO, ADD = "Desk/Echo", "Desk/Add"
#: By name: the plant, the method that shows it, and words of the report.
PLANTS: dict[str, tuple[Plant, str, tuple[str, ...]]] = {
    "second client": (
        lambda seen: replace(seen, notes=seen.notes[:0]) if seen.client == 2 else None,
        ECHO,
        ("of two clients at once",),
    ),
    "crossed calls": (_crossed, ECHO, ("at once",)),
    "wrong under load": (lambda seen: None if seen.is_alone else replace(seen, metadata=()), ECHO, ("at once",)),
    "list sorted": (each(lambda note: note.list.sort()), ECHO, ("list",)),
    "number by a double": (
        each(lambda note: setattr(note, "number", int(float(note.number)) % 2**63)),
        ECHO,
        ("number",),
    ),
    "denormal lost": (each(lambda note: setattr(note, "x", 0.0) if abs(note.x) < 2.3e-308 else None), ECHO, ("x",)),
    "minus zero lost": (each(lambda note: setattr(note, "x", note.x + 0.0)), ECHO, ("x", "-0.0")),
    "NFC": (each(lambda note: setattr(note, "text", unicodedata.normalize("NFC", note.text))), ECHO, ("text",)),
    "trimmed": (each(lambda note: setattr(note, "text", note.text.strip())), ECHO, ("text",)),
    "default dropped": (each(lambda note: note.level or note.ClearField("level")), ECHO, ("level",)),
    "list cut at 2": (cut(2), ECHO, ("list",)),
    "list cut at 99": (cut(99), ECHO, ("list",)),
    "list cut at 1000": (cut(1000), ECHO, ("list",)),
    "map cut at 5": (each(_few_counts), ECHO, ("counts",)),
    "bytes cut at 64 KiB": (each(lambda note: setattr(note, "blob", note.blob[: 2**16])), ECHO, ("blob",)),
    "text cut at 1 MiB": (each(lambda note: setattr(note, "text", note.text[: 2**20])), ECHO, ("text",)),
    "last request lost": (lambda seen: _without(seen.notes, 5) if len(seen.notes) > 5 else None, ADD, ("requests [",)),
    "fifth request lost": (lambda seen: _without(seen.notes, 4), ADD, ("requests [",)),
    "request 999 lost": (lambda seen: _without(seen.notes, 998), ADD, ("requests [",)),
    "equal request lost": (_without_equal, ADD, ("requests [",)),
    "binary metadata lost": (pairs(lambda given: tuple(one for one in given if "-bin" not in one[0])), ECHO, ("-bin",)),
    "binary metadata padded": (
        pairs(lambda given: tuple((k, v[: len(v) // 3 * 3] if "-bin" in k else v) for k, v in given)),
        ECHO,
        ("-bin",),
    ),
    "percent decoded": (each(lambda note: setattr(note, "text", note.text.replace("%41", "A"))), ECHO, ("%41",)),
    "duplicates lost": (pairs(lambda given: tuple(dict(given).items())), ECHO, ("saw-lucky-parity",)),
    "equal keys sorted": (pairs(lambda given: tuple(sorted(given))), ECHO, ("saw-lucky-parity",)),
    "empty metadata lost": (pairs(lambda given: tuple(one for one in given if one[1])), ECHO, ("saw-lucky-parity",)),
    "long metadata cut": (pairs(lambda given: tuple((k, v[:1000]) for k, v in given)), ECHO, ("saw-lucky-parity",)),
    "a deadline for all": (lambda seen: replace(seen, seconds=seen.seconds or 60.0), ECHO, ("no deadline", "'none'")),
    "long deadlines cut": (
        lambda seen: replace(seen, seconds=seen.seconds and min(seen.seconds, 3600.0)),
        ECHO,
        ("a long deadline", "'a day'"),
    ),
    "unknown fields lost": (each(lambda note: note.DiscardUnknownFields()), ECHO, ("",)),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_difference_that_only_certain_calls_show_is_found(name: str, prove: Callable[..., ServiceParity]) -> None:
    plant, method, words = PLANTS[name]
    outcome = prove(plant, method)
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    text = f"{first.sentence()} {first.plain()}"
    assert method in text
    assert all(word in text for word in words), text


def test_without_a_plant_all_is_equal(prove: Callable[..., ServiceParity]) -> None:
    outcome = prove()
    assert outcome.equal, outcome.sentence
    assert {name: row.calls for name, row in outcome.methods.items()} == {
        "/lab.Desk/Echo": 100,
        "/lab.Desk/Mark": 101,  # once in turns
        "/lab.Desk/Add": 101,
    }
    assert not [what for what in outcome.left if "at once" in what and "different methods" not in what]


def test_items_that_all_come_at_the_end_are_no_difference_and_show_in_the_times(
    prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Desk.ask

    def late(self: Desk, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        return replace(ask(self, row, requests, **given), first_us=90.0 if self.transport == CANDIDATE else 10.0)

    monkeypatch.setattr(Desk, "ask", late)
    outcome = prove(method=ADD)
    assert outcome.equal, outcome.sentence
    found = outcome.plain()["times"]["/lab.Desk/Add"]
    assert found["call"] == (1.0, 1.0)
    assert found["first_item"] == pytest.approx((9.0, 9.0))
    heads, (row,) = outcome.table
    assert dict(zip(heads, row, strict=True))["× to the first item"] == "9.00 to 9.00"
    assert "Add: its first item comes 9.00 to 9.00 times as late" in outcome.offer


def test_a_slow_method_makes_no_short_deadline_of_another_longer(prove: Callable[..., ServiceParity]) -> None:
    outcome = prove(lambda seen: replace(seen, seconds=seen.seconds and max(seen.seconds, 3.0)))
    first = outcome.first_difference
    assert first is not None, outcome.sentence
    assert "Desk/Mark" in first.sentence()
    assert "'2 s'" in first.sentence()


def test_the_call_that_is_shown_has_the_kind_of_difference_that_was_found(
    prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where gRPC cuts the details by which a server refuses what an earlier call of another method allows."""
    ask, alone = Desk.ask, set[int]()

    def refused(self: Desk, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        found = ask(self, row, requests, **given)
        alone.update({id(self)} if row.name.endswith("Echo") else ())
        is_known = id(self) in alone or self.client == 2
        return found if is_known else replace(found, items=[], code="NOT_FOUND", details=self.transport)

    monkeypatch.setattr(Desk, "ask", refused)
    first = prove(PLANTS["fifth request lost"][0]).first_difference
    assert first is not None
    assert "as drawn; it does not differ so on fresh servers" in first.sentence()
    assert "details" not in first.sentence()


def test_a_smaller_call_that_differs_otherwise_is_not_shown(
    prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, told = Desk.ask, set[int]()

    def tells(self: Desk, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        """Answer an empty request otherwise once there was a text."""
        found = ask(self, row, requests, **given)
        told.update({id(self)} if row.request.FromString(b"".join(requests)).text else ())
        return found if any(requests) or id(self) not in told else replace(found, details=self.transport)

    monkeypatch.setattr(Desk, "ask", tells)
    first = prove(each(lambda note: setattr(note, "text", note.text and f"{note.text}!")), ECHO).first_difference
    assert first is not None
    assert "text of /lab.Desk/Echo differs (item)" in first.sentence()
    assert "the smallest found" in first.sentence()


@pytest.mark.parametrize("method", ["Echo", "Mark"])  # the one that makes the state
def test_answers_that_hang_on_their_order_are_left_out_and_said(
    method: str, prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = Desk.ask, Counter[int]()

    def numbered(self: Desk, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        """Number the answers, alike as long as no call of shared memory overtakes another."""
        if not asked[id(self)] and not row.name.endswith(method):
            return ask(self, row, requests, **given)
        asked[id(self)] += 1
        is_alone = threading.current_thread() is threading.main_thread()
        overtaken = 0 if is_alone or self.transport != CANDIDATE else 1
        return replace(ask(self, row, requests, **given), trailing=(("number", str(asked[id(self)] + overtaken)),))

    monkeypatch.setattr(Desk, "ask", numbered)
    outcome = prove(count=20)
    assert outcome.equal, outcome.sentence
    assert "hang on which of them comes first" in outcome.left["calls of /lab.Desk/Echo at once"]


def test_a_method_that_refuses_most_calls_is_named_among_what_was_not_compared(
    prove: Callable[..., ServiceParity], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Desk.ask

    def picky(self: Desk, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        """Refuse all but an empty request, as a server does that checks a length."""
        found = ask(self, row, requests, **given)
        return replace(found, items=[], code="INVALID_ARGUMENT") if any(requests) else found

    monkeypatch.setattr(Desk, "ask", picky)
    outcome = prove(each(lambda note: note.list.clear()), ECHO)
    assert outcome.equal, outcome.sentence
    assert "of 100 calls" in outcome.not_compared["most of /lab.Desk/Echo"]


def test_what_the_table_has_beyond_the_requests_asked_for_is_said(prove: Callable[..., ServiceParity]) -> None:
    outcome = prove(method=ECHO, count=20)
    assert outcome.equal
    assert "cases of requests of /lab.Desk/Echo beyond the first 20" in outcome.left
