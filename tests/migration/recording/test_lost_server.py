"""A server that is lost in the middle of a replay: what comes after it is made where it is back, else said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome
from lucky_transport_migration.recording.entries import PROTOBUF, Header, RecordedCall, line_of
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.recording.replay import ReplayPlace, replay_at
from lucky_transport_migration.recording.result import UNMADE, ReplayResult

GET = RecordedCall("/t.Own/Get", PROTOBUF, "grpc", (b"ask",), (b"a",), arity="unary_unary")
ANSWERED = CallOutcome("shm", [b"a"])
LOST = CallOutcome("shm", code="UNAVAILABLE", details="Socket closed", is_local=True)
REFUSED = CallOutcome("shm", code="UNAVAILABLE", details="busy")


class Server:
    """Answers as told; it is back as often as told. waits: how long it was waited for."""

    def __init__(self, answers: Sequence[CallOutcome], back: Sequence[bool] = ()) -> None:
        self._answers, self._back = iter(answers), iter(back)
        self.waits: list[float] = []

    def ask(self, method: ServiceMethod, requests: Sequence[bytes], **_: Any) -> CallOutcome:
        return next(self._answers)

    def is_ready(self, within_s: float) -> bool:
        self.waits.append(within_s)
        return next(self._back)


def replayed(folder: Path, server: Server, calls: int = 5) -> ReplayResult:
    file, result = folder / "run.jsonl", ReplayResult()
    file.write_text(line_of(Header("grpc")) + line_of(GET) * calls)
    place = ReplayPlace("shm://own")
    vars(place)["_caller"] = server
    replay_at(Recording(file), [place], ComparisonRules(), [result.add])
    return result


def test_a_replay_goes_on_where_the_server_is_back(tmp_path: Path) -> None:
    result = replayed(tmp_path, Server([ANSWERED, LOST, ANSWERED, LOST, ANSWERED], [True, True]))
    assert (result.calls, result.compared, result.bad) == (5, 5, 2)
    assert result.first is not None
    assert (result.first.where, result.first.values["shm"]) == ("call 2: code", "UNAVAILABLE: Socket closed")
    assert "not made" not in result.sentence


def test_what_is_not_made_since_the_server_is_lost_is_said(tmp_path: Path) -> None:
    result = replayed(tmp_path, Server([ANSWERED, LOST], [False]))
    assert (result.calls, result.compared, result.equal) == (5, 2, False)
    assert result.sentence.startswith("DIFFERENT: /t.Own/Get: code differs at call 2: code")
    assert result.sentence.endswith(f" 3 calls and steps were not made: {UNMADE}.")
    assert result.methods["/t.Own/Get"].unseen == {UNMADE: 3}


def test_it_waits_for_a_server_so_long_in_all(tmp_path: Path) -> None:
    server = Server([LOST] * 5, [True] * 5)
    replayed(tmp_path, server)
    assert server.waits == sorted(server.waits, reverse=True)
    assert max(server.waits) <= 5


def test_a_handler_that_says_unavailable_is_no_lost_server(tmp_path: Path) -> None:
    server = Server([REFUSED] * 5)
    result = replayed(tmp_path, server)
    assert (result.compared, server.waits) == (5, [])
