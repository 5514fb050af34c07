"""A recording made again: each difference and each lost call is found and named; how calls of a team's own are made."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport.errors import ConfigError, PeerDied, SpecError
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import NOT_ENDED
from lucky_transport_migration.evidence.tally import RunSummary
from lucky_transport_migration.recording.entries import Header, RecordedCall, Recording, Step, line_of, masked
from lucky_transport_migration.recording.recorded_transport import recorded_endpoint
from lucky_transport_migration.recording.replay import ReplayPlace, replay_at
from lucky_transport_migration.recording.replay_call import RecordedMethods, ReplayCall, compared
from lucky_transport_migration.recording.result import ReplayResult
from lucky_transport_migration.routing.policies import RecordingPolicy
from tests.migration.conftest import FakePolicy
from tests.planted.changes import Over, connecting, fails, items, one_bit, swapped
from tests.support.fixtures.migration_evidence import seen

Serve = Callable[..., str]
Change = Callable[[list[RecordedCall | Step]], Sequence[RecordedCall | Step]]

LIST, SLOTS = "/hazel.rpc.SceneService/ListEntities", "/hazel.rpc.AgentService/StreamPolicySlotState"
STEP = "/hazel.rpc.AgentService/Step"


def played(recording: Recording, endpoint: str, *changes: Over, rules: ComparisonRules | None = None) -> ReplayResult:
    result = ReplayResult()
    with connecting(endpoint, *changes)() as transport:
        replay_at(recording, [ReplayPlace(endpoint, transport)], rules or ComparisonRules(), [result.add])
    result.torn = recording.torn
    return result


def first(result: ReplayResult) -> Any:
    assert not result.equal
    assert result.first is not None
    return result.first


def test_a_fresh_engine_with_the_same_seed_answers_the_same(recording: Recording, serve_toy: Serve) -> None:
    result = played(recording, serve_toy())
    equal = "EQUAL: 27 of 27 recorded calls and steps were compared, and all are equal."
    assert result.sentence == f"{equal} 1 of 27 compared answers was a refusal: 1 UNIMPLEMENTED."
    assert {name.rpartition("/")[2]: row.calls for name, row in result.methods.items()} == {
        "SetSeeds": 1,
        "Step": 21,
        "ListEntities": 2,
        "GetJointState": 1,
        "StreamPolicySlotState": 1,
        "GetEntity": 1,
    }


def test_a_lost_engine_ends_the_replay_and_what_was_not_made_is_said(recording: Recording, serve_toy: Serve) -> None:
    result = played(recording, serve_toy(), fails(4, PeerDied("planted")))
    assert (first(result).method, first(result).aspect) == (STEP, "code")
    assert (result.methods[STEP].compared, result.methods[STEP].calls) == (4, 21)
    assert result.methods[LIST].unseen == {"the server or engine does not answer any more": 2}
    assert result.sentence.endswith(" 22 calls and steps were not made: the server or engine does not answer any more.")


def test_a_batch_of_another_size_is_refused_with_a_remedy(recording: Recording, serve_toy: Serve) -> None:
    with pytest.raises(SpecError, match=r"recorded with num_envs 3, the engine has 4; .*--num-envs 3"):
        played(recording, serve_toy(num_envs=4))


@pytest.mark.parametrize("array", ["actions", "control", "signals"])
def test_a_damaged_step_is_named(changed: Callable[[Change], Recording], serve_toy: Serve, array: str) -> None:
    def change(entries: list[RecordedCall | Step]) -> list[RecordedCall | Step]:
        return [replace(one, **{array: b"?"}) if isinstance(one, Step) else one for one in entries]

    with pytest.raises(ConfigError, match=f"line 3: recorded {array} of 1 bytes, expected .*; record it anew"):
        played(changed(change), serve_toy())


@pytest.mark.parametrize("damage", [{"requests": ()}, {"requests": (b"\xff\xff",)}, {"items": (b"\xff\xff",)}])
def test_a_damaged_call_is_an_error_that_names_its_line(
    changed: Callable[[Change], Recording], serve_toy: Serve, damage: dict[str, tuple[bytes, ...]]
) -> None:
    def change(entries: list[RecordedCall | Step]) -> list[RecordedCall | Step]:
        return [
            replace(one, **damage) if isinstance(one, RecordedCall) and one.call == LIST else one for one in entries
        ]

    with pytest.raises(ConfigError, match=r"changed.jsonl: line 24: /hazel.rpc.SceneService/ListEntities: .*record it"):
        played(changed(change), serve_toy())


@pytest.mark.parametrize("cut", [1, 20, 400])
def test_a_torn_recording_is_incomplete_where_all_before_its_end_is_equal(
    recording: Recording, serve_toy: Serve, cut: int
) -> None:
    names = [STEP if isinstance(entry, Step) else entry.call for entry in recording.entries()]
    os.truncate(recording.path, recording.path.stat().st_size - cut)
    seen: list[Any] = []
    result = ReplayResult()
    with closing(ReplayPlace(serve_toy())) as place:
        replay_at(recording, [place], ComparisonRules(), [seen.append])
    for one in seen:
        result.add(one)
    result.torn = recording.torn
    assert not result.equal
    whole = len(seen) - 1
    assert result.torn == f"the recording ends in the middle of an entry; {whole} were read"
    assert result.sentence == (
        f"INCOMPLETE: {whole} of {whole + 1} recorded calls and steps were compared and are equal, but {result.torn}."
    )
    assert (seen[-1].method, seen[-1].verdict, seen[-1].why) == (names[whole], "not_compared", result.torn)
    assert (result.plain()["equal"], result.plain()["torn"]) == (False, result.torn)


def test_calls_alone_can_be_made_on_a_batch_of_any_size(
    changed: Callable[[Change], Recording], serve_toy: Serve
) -> None:
    only_calls = changed(
        lambda entries: [one for one in entries if isinstance(one, RecordedCall) and one.call.endswith("SlotState")]
    )
    assert played(only_calls, serve_toy(num_envs=5)).equal


def test_what_cannot_be_compared_is_counted_with_the_reason(
    changed: Callable[[Change], Recording], serve_toy: Serve
) -> None:
    def change(entries: list[RecordedCall | Step]) -> list[RecordedCall]:
        calls = [one for one in entries if isinstance(one, RecordedCall)]
        stream = next(one for one in calls if one.call == SLOTS)
        return [
            replace(calls[0], call="/their.own/Method"),
            replace(stream, moved=True),
            replace(stream, requests=(), form="protobuf"),
            replace(stream, requests=(b"\xff\xff",), form="protobuf"),
        ]

    result = played(changed(change), serve_toy())
    assert not result.equal
    assert result.sentence == "NOTHING COMPARED: of 4 recorded calls and steps none could be compared."
    reasons = [why for row in result.methods.values() for why in row.unseen]
    assert "says how it is called" in reasons[0]
    assert "hang on the clock" in reasons[1]
    assert "0 requests" in reasons[2]
    assert len(reasons) == 4


def test_requests_of_generated_stubs_are_made_as_typed_calls(
    changed: Callable[[Change], Recording], serve_toy: Serve
) -> None:
    pb = pytest.importorskip("lucky_transport_grpc._pb")

    def change(entries: list[RecordedCall | Step]) -> list[RecordedCall]:
        request = pb.methods()[LIST].request(include_transforms=False).SerializeToString()
        entity = pb.methods()[LIST].response()
        for number in range(3):
            row = entity.entities.add()
            row.id.id, row.name = number + 1, f"agent_{number}"
        return [RecordedCall(LIST, "protobuf", "grpc", (request,), (entity.SerializeToString(),))]

    recording = changed(change)
    assert played(recording, serve_toy()).equal
    difference = first(played(recording, serve_toy(num_envs=2)))
    assert difference.where == "call 1: len(entities)"
    assert difference.values == {"recorded": 3, "inproc": 2, "request": difference.values["request"]}
    assert "include_transforms=False" in difference.values["request"]


def test_a_stream_that_was_left_is_compared_as_far_as_it_went(
    changed: Callable[[Change], Recording], serve_toy: Serve
) -> None:
    def change(entries: list[RecordedCall | Step]) -> list[RecordedCall]:
        stream = next(one for one in entries if isinstance(one, RecordedCall) and one.call == SLOTS)
        return [replace(stream, items=stream.items[:4], left=True)]

    recording = changed(change)
    assert played(recording, serve_toy()).equal
    for number, equal in ((3, False), (4, True)):
        assert played(recording, serve_toy(), items(method(SLOTS), swapped(number))).equal == equal


def test_an_outcome_is_plain_json(recording: Recording, serve_toy: Serve, tmp_path: Path) -> None:
    plain = played(recording, serve_toy(), one_bit(8)).plain()
    again = json.loads(json.dumps(plain, allow_nan=False))
    keys = {"equal", "torn", "calls", "compared", "unfinished", "aspects", "methods", "left_out", "first_difference"}
    assert set(again) == keys
    assert list(again["aspects"]) == ["status", "details", "items"]
    assert {"what": "headers, trailing metadata", "why": "a typed call shows none"} in again["left_out"]
    assert again["methods"][STEP] == {"calls": 21, "mismatches": 1, "refusals": {}, "not_compared": []}
    assert again["first_difference"]["method"] == STEP


def test_a_recording_of_an_engine_with_parts_names_the_part_that_differs(serve_toy: Serve, tmp_path: Path) -> None:
    file = tmp_path / "parts.jsonl"
    endpoint = str(recorded_endpoint(serve_toy(engine="toy:composite"), file, seed=7))
    with lucky_transport.make(endpoint=endpoint) as env:
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(5):
            env.step(env.action_space.sample())
    assert played(Recording(file), serve_toy(engine="toy:composite")).equal
    difference = first(played(Recording(file), serve_toy(engine="toy:composite"), one_bit(4, env=1)))
    assert difference.where.startswith('exchange 4: observation["')


def test_two_engines_are_compared_with_the_recording_and_with_each_other(
    recording: Recording, serve_toy: Serve
) -> None:
    results = [ReplayResult() for _ in range(3)]
    with connecting(serve_toy())() as one, connecting(serve_toy(), one_bit(8, env=2))() as other:
        places = [ReplayPlace("", transport) for transport in (one, other)]
        replay_at(recording, places, ComparisonRules(), [result.add for result in results])
    assert [result.equal for result in results] == [True, False, False]
    assert [result.calls for result in results] == [27, 27, 27]
    with_recording, with_each_other = (first(result) for result in results[1:])
    assert with_each_other.where == with_recording.where
    assert with_each_other.where.startswith("exchange 8: ")


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
