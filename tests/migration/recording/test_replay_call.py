"""How recorded calls of a team's own service are made again, where a server is lost, and calls that had not ended."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.routing import Decision
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import NOT_ENDED
from lucky_transport_migration.evidence.tally import RunSummary
from lucky_transport_migration.recording.entries import Header, RecordedCall, Recording, line_of, masked
from lucky_transport_migration.recording.replay import ReplayPlace, replay_at
from lucky_transport_migration.recording.replay_call import RecordedMethods, ReplayCall, compared
from lucky_transport_migration.recording.result import ReplayResult
from lucky_transport_migration.routing.policies import RecordingPolicy
from tests.migration.conftest import FakePolicy
from tests.support.fixtures.migration_evidence import seen

STREAM = RecordedCall(
    "/t.Own/Watch", "protobuf", "grpc", (b"ask",), (b"a", b"b"), "CANCELLED", left=True, us=2e6, arity="unary_stream"
)


UNARY = replace(STREAM, call="/t.Own/Get", arity="unary_unary", items=())


def replay_call(call: RecordedCall, **given: Any) -> ReplayCall:
    method = RecordedMethods().find(call)
    assert method is not None
    return ReplayCall.of(call, method, **given)


def shown(call: RecordedCall, now: CallOutcome) -> Any:
    was = CallOutcome(call.transport, call.items, call.code)
    return compared(3, replay_call(call), was, now, ComparisonRules())


_SENT = (("authorization", "Bearer 1"), ("x-api-key-bin", b"1"), ("cookie", "1"), ("team", "weather"))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (STREAM, {"cancel_after": 2, "is_cut": True}),
        (UNARY, {"cancel_after_s": 2.0, "is_cut": True}),
        (replace(STREAM, left=False), {}),
        (replace(STREAM, code="DEADLINE_EXCEEDED", left=False, timeout_s=0.25), {"timeout_s": 0.25}),
        (
            replace(STREAM, left=False, metadata=masked(_SENT)),
            {"metadata": (("team", "weather"),), "without": ("authorization", "x-api-key-bin", "cookie")},
        ),
    ],
    ids=["left", "left without a response", "cancelled by its server", "late", "with secrets"],
)
def test_a_call_is_made_again_as_it_was(call: RecordedCall, wanted: dict[str, Any]) -> None:
    how = replay_call(call)
    usual = {"cancel_after": None, "cancel_after_s": None, "is_cut": False, "metadata": (), "without": ()}
    expected = usual | {"timeout_s": 60.0} | wanted
    assert {name: getattr(how, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("left", "now", "found"),
    [
        (True, CallOutcome("shm", [b"a", b"b"], "CANCELLED"), ("equal", "", "")),
        (True, CallOutcome("shm", [b"a"]), ("different", "count", "call 3: items")),
        (True, CallOutcome("shm", [b"a"], "INTERNAL"), ("failed", "code", "call 3: code")),
        (False, CallOutcome("shm", [b"a", b"b"]), ("different", "code", "call 3: code")),
    ],
)
def test_a_stream_is_compared_to_where_it_was_left_or_ended(
    left: bool, now: CallOutcome, found: tuple[str, str, str]
) -> None:
    evidence = shown(replace(STREAM, left=left), now)
    assert (evidence.verdict, evidence.aspect, evidence.where) == found


def test_an_answer_to_a_call_that_was_left_without_one_shows_nothing() -> None:
    how = replay_call(UNARY)
    assert how.incomparable(CallOutcome("shm", code="CANCELLED")) == ""
    assert "had one by then now" in how.incomparable(CallOutcome("shm", [b"a"]))


def test_a_secret_that_is_given_is_not_wanted() -> None:
    kept = masked((("authorization", "Bearer 1"), ("cookie", "1")))
    answered = replace(STREAM, metadata=kept, items=(b"for 12345678",))
    how = replay_call(answered, given=(("authorization", "Bearer 12345678"),))
    assert how.without == ("cookie",)
    assert how.was.items == [b"for ********"], "a replay masks it too, in what is answered now"


def test_a_refusal_for_want_of_a_secret_that_no_recording_has_shows_nothing() -> None:
    call = replace(UNARY, metadata=masked((("authorization", "Bearer 1"),)), items=(b"a",), code="OK", left=False)
    refused = CallOutcome("shm", code="UNAUTHENTICATED", details="no token")
    found = shown(call, refused)
    assert (found.verdict, found.why) == (
        "not_compared",
        "it is made without its secret, and ended with UNAUTHENTICATED",
    )
    assert shown(call, CallOutcome("shm", code="NOT_FOUND")).verdict == "different"
    same = replace(call, code="UNAUTHENTICATED", items=())
    assert shown(same, replace(refused, details="")).verdict == "equal", "it was refused with its secret too"
    assert shown(replace(call, metadata=()), refused).verdict == "different"


def test_without_a_word_on_how_it_is_called_no_call_is_made() -> None:
    assert RecordedMethods().find(replace(STREAM, arity="")) is None


GET = RecordedCall("/t.Own/Get", "protobuf", "grpc", (b"ask",), (b"a",), arity="unary_unary")
ANSWERED = CallOutcome("shm", [b"a"])
LOST = CallOutcome("shm", code="UNAVAILABLE", details="Socket closed", is_local=True)
REFUSED = CallOutcome("shm", code="UNAVAILABLE", details="busy")


class Server:
    """Answers as told; it is back as often as told. waits: how long it was waited for."""

    def __init__(self, answers: Sequence[CallOutcome], back: Sequence[bool] = ()) -> None:
        self._answers, self._back = iter(answers), iter(back)
        self.waits: list[float] = []

    def ask(self, method: Any, requests: Sequence[bytes], **_: Any) -> CallOutcome:
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
    assert result.sentence.endswith(" 3 calls and steps were not made: the server or engine does not answer any more.")
    assert result.methods["/t.Own/Get"].unseen == {"the server or engine does not answer any more": 3}


def test_it_waits_for_a_server_so_long_in_all(tmp_path: Path) -> None:
    server = Server([LOST] * 5, [True] * 5)
    replayed(tmp_path, server)
    assert server.waits == sorted(server.waits, reverse=True)
    assert max(server.waits) <= 5


def test_a_handler_that_says_unavailable_is_no_lost_server(tmp_path: Path) -> None:
    server = Server([REFUSED] * 5)
    result = replayed(tmp_path, server)
    assert (result.compared, server.waits) == (5, [])


METHOD = "/hazel.rpc.SceneService/ListEntities"


def test_a_recording_says_which_calls_had_not_ended(tmp_path: Path) -> None:
    policy = RecordingPolicy(FakePolicy(Decision("grpc")), tmp_path / "run.jsonl")
    outcome = CallOutcome("grpc", [b"one"], "CANCELLED", "the program ended before the call did")
    for unfinished in (False, True):
        policy.note(
            Comparison(METHOD, Decision("grpc"), outcome, request=b"", ended_early=unfinished, unfinished=unfinished)
        )
    policy.close()
    assert [
        isinstance(one, RecordedCall) and one.unfinished for one in Recording(tmp_path / "run.jsonl").entries()
    ] == [False, True]


def test_replay_and_the_program_itself_say_how_many_there_are(tmp_path: Path) -> None:
    equal = seen(METHOD)
    cut = seen(METHOD, left_out={"status": "", NOT_ENDED: ""})
    unseen = seen(METHOD, "not_compared", why=NOT_ENDED)
    result, summary = ReplayResult(), RunSummary()
    for one in (equal, cut, unseen):
        result.add(one)
        summary.add(one)
    assert result.plain()["unfinished"] == 2
    assert result.sentence.endswith(
        "2 calls had not ended when the program did: no more is compared than came until then."
    )
    assert "2 calls had not ended when the program did" in summary.sentence(tmp_path)
    assert [one.is_unfinished for one in (equal, cut, unseen)] == [False, True, True]
