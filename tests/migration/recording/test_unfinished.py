"""Recorded calls that had not ended when their program did."""

from __future__ import annotations

from pathlib import Path

from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import EQUAL, NOT_COMPARED, NOT_ENDED, Evidence, SideResult
from lucky_transport_migration.evidence.summary import RunSummary
from lucky_transport_migration.recording.entries import RecordedCall
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.recording.result import ReplayResult
from lucky_transport_migration.routing.recording_policy import RecordingPolicy
from tests.migration.recording.test_recording_policy import Inner

METHOD = "/hazel.rpc.SceneService/ListEntities"


def test_a_recording_says_which_calls_had_not_ended(tmp_path: Path) -> None:
    policy = RecordingPolicy(Inner(), tmp_path / "run.jsonl")
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
    equal = Evidence(METHOD, "", SideResult("grpc"), verdict=EQUAL)
    cut = Evidence(METHOD, "", SideResult("grpc"), verdict=EQUAL, left_out={"status": "", NOT_ENDED: ""})
    unseen = Evidence(METHOD, "", SideResult("grpc"), verdict=NOT_COMPARED, why=NOT_ENDED)
    result, summary = ReplayResult(), RunSummary()
    for one in (equal, cut, unseen):
        result.add(one)
        summary.add(one)
    assert result.plain()["unfinished"] == 2
    assert result.sentence.endswith(
        "2 calls had not ended when the program did: no more is compared than came until then."
    )
    assert "2 calls had not ended when the program did" in summary.sentence(tmp_path)
    assert [one.is_unfinished for one in map(Evidence.read, (equal.write(), cut.write(), unseen.write()))] == [
        False,
        True,
        True,
    ]
