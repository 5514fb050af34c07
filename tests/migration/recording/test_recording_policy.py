"""The policy that records programs of gRPC."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lucky_transport.messages import ListEntitiesRequest
from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.recording.entries import PROTOBUF, RecordedCall
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.routing.received import ReceivedItems
from lucky_transport_migration.routing.recording_policy import RecordingPolicy, UnstagedPolicy, recorded

READ, WORLD = "/hazel.rpc.SceneService/ListEntities", "/hazel.rpc.SceneService/EnterPlayMode"
STREAM = "/hazel.rpc.MujocoService/StreamJointState"


class Inner:
    """A policy that leaves everything to gRPC and remembers what it was told."""

    def __init__(self) -> None:
        self.noted: list[Comparison] = []
        self.closed = 0

    def decide(self, method: str) -> Decision:
        return Decision("grpc", "shm", stage=method)

    def digest(self, method: str, decision: Decision) -> None:
        pass

    def note(self, comparison: Comparison) -> None:
        self.noted.append(comparison)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def policy(inner: Inner, tmp_path: Path) -> RecordingPolicy:
    return RecordingPolicy(inner, tmp_path / "run.jsonl")


def seen(method: str = READ, took_us: float = 40.0, request: object = b"ask") -> Comparison:
    metadata = (("key", "value"), ("key-bin", b"\x00"))
    outcome = CallOutcome("grpc", [b"one", b"two"], "NOT_FOUND", "no such thing", trailing=metadata, took_us=took_us)
    return Comparison(method, Decision("grpc"), outcome, request=request)


def calls(tmp_path: Path) -> list[RecordedCall]:
    return [one for one in Recording(tmp_path / "run.jsonl").entries() if isinstance(one, RecordedCall)]


def test_the_other_policy_decides_and_no_shadow_is_asked(policy: RecordingPolicy) -> None:
    assert policy.decide(READ) == Decision("grpc", "", READ)


def test_the_other_policy_is_told_of_everything(policy: RecordingPolicy, inner: Inner) -> None:
    comparisons = [seen(), seen(request=ListEntitiesRequest())]
    for one in comparisons:
        policy.note(one)
    policy.close()
    policy.close()
    assert inner.noted == comparisons
    assert inner.closed == 2


def test_a_call_is_written_as_the_program_sent_it(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen())
    policy.close()
    (call,) = calls(tmp_path)
    assert call == RecordedCall(
        READ,
        PROTOBUF,
        "grpc",
        (b"ask",),
        (b"one", b"two"),
        "NOT_FOUND",
        "no such thing",
        trailing=(("key", "value"), ("key-bin", b"\x00")),
        us=40.0,
    )
    assert Recording(tmp_path / "run.jsonl").header.transport == "grpc"


def test_a_stream_of_requests_has_them_all(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen(request=[b"one", b"two"]))
    policy.close()
    assert calls(tmp_path)[0].requests == (b"one", b"two")


def test_of_a_stream_longer_than_what_is_kept_the_rest_is_counted_and_nobody_left_it(
    policy: RecordingPolicy, tmp_path: Path
) -> None:
    comparison = seen(STREAM)
    comparison.primary.items, comparison.primary.more, comparison.primary.rest = [b"item"] * 256, 44, "bytes:00"
    policy.note(comparison)
    policy.note(seen(STREAM))
    policy.close()
    assert [(call.left, call.more, call.rest) for call in calls(tmp_path)] == [(False, 44, "bytes:00"), (False, 0, "")]


def test_calls_of_our_own_clients_are_left_to_their_transport(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen(request=ListEntitiesRequest()))
    policy.close()
    assert not (tmp_path / "run.jsonl").exists()


def test_a_stream_beside_which_the_world_moved_says_so(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen(STREAM, took_us=1e7))
    policy.note(seen(WORLD))
    policy.note(seen(STREAM, took_us=1e7))
    policy.note(seen(READ, took_us=1e7))
    policy.close()
    assert [call.moved for call in calls(tmp_path)] == [False, False, True, False]


def test_a_file_that_cannot_be_made_is_said_once_and_harms_nobody(
    inner: Inner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    policy = RecordingPolicy(inner, tmp_path / "file" / "run.jsonl")
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        for _ in range(3):
            policy.note(seen())
        policy.close()
    assert len(inner.noted) == 3
    texts = [record.message for record in caplog.records]
    assert len(texts) == 2
    assert "cannot be written" in texts[0]
    assert "lacks 3 calls" in texts[1]


def test_only_where_a_setting_asks_for_it_anything_is_recorded(
    inner: Inner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recorded(inner) is inner
    monkeypatch.setenv("LUCKY_RECORD", str(tmp_path / "run.jsonl"))
    assert isinstance(recorded(inner), RecordingPolicy)


def test_wrong_stages_are_said_and_an_unstaged_program_goes_on_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[stages]\ndefault = 'nowhere'\n")
    monkeypatch.chdir(tmp_path)
    policy = UnstagedPolicy("shm")
    assert "[stages.effects] is not read: " in caplog.text
    assert "nowhere" in caplog.text
    assert policy.decide(READ) == Decision("shm", stage="complete")


def test_a_wrong_rule_of_the_project_costs_a_caller_no_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lucky_transport.toml").write_text('[parity.fields]\n"observation" = 3\n')
    monkeypatch.chdir(tmp_path)
    policy = RecordingPolicy(Inner(), tmp_path / "run.jsonl")
    received = ReceivedItems(2, lambda: policy.digest("/team.v1.A/Watch", Decision("grpc")))
    for _ in range(4):
        received.add(b"item")
    assert (received.items, received.rest, received.wants_more) == ([b"item"] * 2, "", False)
