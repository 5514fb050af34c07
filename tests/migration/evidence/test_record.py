"""Evidence survives being written and read; requests are told apart, and whose side ended a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout, Status, StatusError
from lucky_transport.messages import GetAgentSchemaRequest, GetSceneInfoRequest, LidarSensorRequest
from lucky_transport.routing import Ending
from lucky_transport_migration.evidence.call_comparison import request_hash
from lucky_transport_migration.evidence.outcome import as_seen, ending_of
from lucky_transport_migration.evidence.record import Evidence, SideResult
from lucky_transport_migration.jsonl import entry_of, moment

TEXT = st.text(max_size=20)
SIDES = st.builds(SideResult, TEXT, TEXT, st.floats(0, 1e9), st.integers(0, 1000))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT


EVIDENCE = st.builds(
    Evidence,
    method=TEXT,
    stage=TEXT,
    primary=SIDES,
    shadow=st.none() | SIDES,
    kind=st.sampled_from(["live", "aa", "replay", "parity"]),
    verdict=st.sampled_from(["equal", "different", "failed", "not_compared"]),
    aspect=TEXT,
    where=TEXT,
    values=st.dictionaries(TEXT, PLAIN, max_size=3),
    why=TEXT,
    left_out=st.dictionaries(TEXT, TEXT, max_size=3),
    at=TEXT,
)


@given(EVIDENCE)
def test_what_is_written_is_read_again(evidence: Evidence) -> None:
    line = evidence.write()
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert entry_of(Evidence, line) == evidence


def test_the_form_of_a_line_is_fixed() -> None:
    evidence = Evidence("/a.B/C", "shadow", SideResult("grpc", us=1.5, items=1), at=moment(0.003))
    assert json.loads(evidence.write()) == {
        "v": 1,
        "at": "1970-01-01T00:00:00.003Z",
        "method": "/a.B/C",
        "stage": "shadow",
        "kind": "live",
        "authority": {"transport": "grpc", "code": "OK", "us": 1.5, "items": 1, "local": False, "first": 0.0},
        "shadow": None,
        "verdict": "not_compared",
        "aspect": "",
        "where": "",
        "values": {},
        "why": "",
        "left_out": {},
        "request": "",
    }


@pytest.mark.parametrize(
    ("verdict", "aspect", "where", "sentence"),
    [
        ("different", "item", "state.qpos[0]", "/a.B/C: item differs at state.qpos[0]: grpc 'x', shm 1"),
        ("different", "details", "details", "/a.B/C: details differ: grpc 'x', shm 1"),
        ("failed", "late", "code", "/a.B/C: the candidate failed (late): grpc 'x', shm 1"),
        ("equal", "", "", ""),
    ],
)
def test_a_difference_is_one_sentence(verdict: str, aspect: str, where: str, sentence: str) -> None:
    values = {"grpc": "x", "shm": 1}
    evidence = Evidence(
        "/a.B/C", "shadow", SideResult("grpc"), verdict=verdict, aspect=aspect, where=where, values=values
    )
    assert evidence.sentence == sentence


@given(st.binary(max_size=60) | PLAIN.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_object_is_no_evidence(line: bytes) -> None:
    assert entry_of(Evidence, line) is None


PAYLOADS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


@given(PAYLOADS, PAYLOADS)
def test_equal_requests_have_one_hash_and_different_ones_do_not(left: list[bytes], right: list[bytes]) -> None:
    assert (request_hash(left) == request_hash(right)) == (left == right)


def test_messages_are_told_apart_by_their_fields() -> None:
    hashes = [request_hash(GetAgentSchemaRequest(name)) for name in ("agent_1", "agent_2", "agent_1")]
    assert hashes[0] == hashes[2] != hashes[1]
    assert len(hashes[0]) == 16


@pytest.mark.parametrize("request_", [None, b"", [], [b""], GetSceneInfoRequest(), LidarSensorRequest()], ids=repr)
def test_what_carries_nothing_has_no_hash(request_: Any) -> None:
    assert request_hash(request_) == ""


_LATE = Ending("DEADLINE_EXCEEDED", "Deadline Exceeded", is_local=True)


@pytest.mark.parametrize(
    ("took_s", "timeout_s", "is_local"), [(1.0, 1.0, True), (0.998, 1.0, True), (0.2, 1.0, False), (9.0, None, False)]
)
def test_a_deadline_is_over_when_the_callers_clock_says_so(
    took_s: float, timeout_s: float | None, is_local: bool
) -> None:
    assert as_seen(_LATE, int(took_s * 1e9), timeout_s).is_local == is_local


def test_another_end_stays_as_it_is_whatever_the_clock_says() -> None:
    gone = Ending("UNAVAILABLE", "Socket closed", is_local=True)
    assert as_seen(gone, 0, 1.0) is gone


@pytest.mark.parametrize(
    ("error", "code", "is_local"),
    [
        (NotReachable("nobody there"), "UNAVAILABLE", True),
        (PeerDied("it ended"), "UNAVAILABLE", True),
        (PeerTimeout("too late"), "DEADLINE_EXCEEDED", True),
        (StatusError(Status.UNAVAILABLE, "try again"), "UNAVAILABLE", False),
        (EngineFailed("it broke"), "INTERNAL", False),
    ],
)
def test_of_a_typed_call_the_error_says_it(error: Exception, code: str, is_local: bool) -> None:
    found = ending_of(error)
    assert (found.code, found.is_local) == (code, is_local)
