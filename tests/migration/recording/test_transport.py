"""What is recorded by a transport, and by the policy of programs of gRPC: all of it is written, and nobody notices."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.codec.flatbuffers import decode
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, LocalProtocolError, Unimplemented
from lucky_transport.messages import ListEntitiesRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.recording.entries import RecordedCall, Recording
from lucky_transport_migration.recording.recorded_transport import RecordedTransport, recorded_endpoint
from lucky_transport_migration.routing.policies import RecordingPolicy, UnstagedPolicy, recorded
from lucky_transport_migration.routing.received import ReceivedItems
from tests.migration.conftest import FakePolicy
from tests.support.waiting import PATIENCE_S

Serve = Callable[..., str]
Written = Callable[[], list[Any]]
LIST = method("SceneService/ListEntities")
SLOTS = method("AgentService/StreamPolicySlotState")


@pytest.fixture
def opened(serve_toy: Serve, tmp_path: Path) -> RecordedTransport:
    transport = lucky_transport.api.open_transport(recorded_endpoint(serve_toy(), tmp_path / "run.jsonl"))
    assert isinstance(transport, RecordedTransport)
    return transport


def entries(tmp_path: Path) -> list[Any]:
    return list(Recording(tmp_path / "run.jsonl").entries())


@pytest.fixture
def written(opened: RecordedTransport, tmp_path: Path) -> Written:
    """Return a function that closes it and returns what its file holds."""
    return lambda: opened.close() or entries(tmp_path)


def test_a_step_is_written_with_what_was_sent_and_what_came(opened: RecordedTransport, written: Written) -> None:
    actions = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    frame = opened.step(actions, np.array([1, 0, 2], np.uint8))
    (step,) = written()
    assert (step.step, step.actions, step.control) == (1, actions.tobytes(), b"\x01\x00\x02")
    assert step.observations == frame.observations.tobytes()
    assert step.rewards == frame.rewards.tobytes()
    assert step.signals == frame.signals.tobytes()
    assert step.us > 0


def test_actions_written_in_place_are_recorded_as_they_were_sent(opened: RecordedTransport, written: Written) -> None:
    opened.actions[:] = 0.25
    opened.send(opened.actions)
    opened.actions[:] = 0.75
    opened.recv()
    (step,) = written()
    assert set(np.frombuffer(step.actions, np.float32)) == {np.float32(0.25)}


def test_what_is_refused_before_it_is_sent_is_not_written(opened: RecordedTransport, written: Written) -> None:
    with pytest.raises(ValueError, match="shape"):
        opened.step(np.zeros((1, 1)))
    with pytest.raises(LocalProtocolError):
        opened.recv()
    with pytest.raises(TypeError):
        opened.call(LIST, object())
    assert written() == []


def test_a_failed_call_is_written_with_its_status_and_raised(opened: RecordedTransport, written: Written) -> None:
    unknown = method("SceneService/GetEntity")
    with pytest.raises(Unimplemented) as caught:
        opened.call(unknown, unknown.request(name="nobody"), Deadline(5))
    (call,) = written()
    assert (call.call, call.code, call.details) == (unknown.name, "UNIMPLEMENTED", str(caught.value))


def test_a_stream_is_one_entry_and_says_that_it_was_left(opened: RecordedTransport, written: Written) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        items = [next(stream) for _ in range(3)]
    stream.cancel()
    (call,) = written()
    assert [decode(SLOTS.response, item) for item in call.items] == items
    assert (call.left, call.moved, call.more) == (True, False, 0)


def test_a_stream_beside_which_the_world_moved_says_so(opened: RecordedTransport, written: Written) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        next(stream)
        opened.step(np.zeros((3, 2), np.float32))
    assert written()[1].moved


def test_of_a_long_stream_the_first_items_are_kept(opened: RecordedTransport, written: Written) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        assert len(list(stream)) == 300
    (call,) = written()
    assert (len(call.items), call.more, call.left) == (256, 44, False)


def test_every_connection_is_recorded_where_the_environment_says_so(
    serve_toy: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCKY_RECORD", str(tmp_path / "run.jsonl"))
    endpoint = serve_toy()
    for _ in range(2):
        with lucky_transport.connect(endpoint) as client:
            client.scene.list_entities()
    assert [entry.call for entry in entries(tmp_path)] == [LIST.name] * 2
    header = Recording(tmp_path / "run.jsonl").header
    assert (header.endpoint, header.transport, header.engine) == (endpoint, "inproc", "toy")


async def _list(endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        await client.scene.list_entities()


def test_calls_of_asyncio_are_recorded_too(serve_toy: Serve, tmp_path: Path) -> None:
    import asyncio

    asyncio.run(_list(str(recorded_endpoint(serve_toy(), tmp_path / "run.jsonl"))))
    assert [type(entry) for entry in entries(tmp_path)] == [RecordedCall]


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("recorded:", "needs to= and file="),
        ("recorded:?to=inproc%3A", "needs to= and file="),
        ("recorded:?file=run.jsonl", "needs to= and file="),
        ("recorded:?to=inproc%3A&file=run.jsonl&seed=x", "seed = 'x'"),
    ],
)
def test_a_wrong_endpoint_is_refused(endpoint: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        lucky_transport.connect(endpoint)


def test_nothing_is_served_there() -> None:
    with pytest.raises(Unimplemented):
        lucky_transport.serve("toy", "recorded:")


@pytest.mark.exhaustive
class TestRecorded(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.file = tmp_path / "run.jsonl.gz"

    def connect(self, endpoint: Endpoint) -> Transport:
        return api.open_transport(recorded_endpoint(str(endpoint), self.file))

    def test_its_file_can_be_read_to_the_end(self) -> None:
        with self.open_client() as client:
            self.check_alive(client)
            client.step(client.actions)
        assert len(list(Recording(self.file).entries())) == 2


READ, WORLD = "/hazel.rpc.SceneService/ListEntities", "/hazel.rpc.SceneService/EnterPlayMode"
STREAM = "/hazel.rpc.MujocoService/StreamJointState"


@pytest.fixture
def inner() -> FakePolicy:
    """Return a policy that asks for shadows and remembers what it was told."""
    return FakePolicy(Decision("grpc", "shm", "shadow"))


@pytest.fixture
def policy(inner: FakePolicy, tmp_path: Path) -> RecordingPolicy:
    return RecordingPolicy(inner, tmp_path / "run.jsonl")


def seen(method: str = READ, took_us: float = 40.0, request: object = b"ask") -> Comparison:
    metadata = (("key", "value"), ("key-bin", b"\x00"))
    outcome = CallOutcome("grpc", [b"one", b"two"], "NOT_FOUND", "no such thing", trailing=metadata, took_us=took_us)
    return Comparison(method, Decision("grpc"), outcome, request=request)


def test_the_other_policy_decides_and_no_shadow_is_asked(policy: RecordingPolicy) -> None:
    assert policy.decide(READ) == Decision("grpc", "", "shadow")


def test_the_other_policy_is_told_of_everything(policy: RecordingPolicy, inner: FakePolicy) -> None:
    comparisons = [seen(), seen(request=ListEntitiesRequest())]
    for one in comparisons:
        policy.note(one)
    policy.close()
    policy.close()
    assert inner.notes == comparisons


def test_a_call_is_written_as_the_program_sent_it(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen())
    policy.close()
    (call,) = entries(tmp_path)
    assert call == RecordedCall(
        READ,
        "protobuf",
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
    assert entries(tmp_path)[0].requests == (b"one", b"two")


def test_of_a_stream_longer_than_what_is_kept_the_rest_is_counted_and_nobody_left_it(
    policy: RecordingPolicy, tmp_path: Path
) -> None:
    comparison = seen(STREAM)
    comparison.primary.items, comparison.primary.more, comparison.primary.rest = [b"item"] * 256, 44, "bytes:00"
    policy.note(comparison)
    policy.note(seen(STREAM))
    policy.close()
    assert [(call.left, call.more, call.rest) for call in entries(tmp_path)] == [
        (False, 44, "bytes:00"),
        (False, 0, ""),
    ]


def test_calls_of_our_own_clients_are_left_to_their_transport(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen(request=ListEntitiesRequest()))
    policy.close()
    assert not (tmp_path / "run.jsonl").exists()


def test_a_programs_stream_beside_which_the_world_moved_says_so(policy: RecordingPolicy, tmp_path: Path) -> None:
    policy.note(seen(STREAM, took_us=1e7))
    policy.note(seen(WORLD))
    policy.note(seen(STREAM, took_us=1e7))
    policy.note(seen(READ, took_us=1e7))
    policy.close()
    assert [call.moved for call in entries(tmp_path)] == [False, False, True, False]


def test_a_file_that_cannot_be_made_is_said_once_and_harms_nobody(
    inner: FakePolicy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    policy = RecordingPolicy(inner, tmp_path / "file" / "run.jsonl")
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        for _ in range(3):
            policy.note(seen())
        policy.close()
    assert len(inner.notes) == 3
    texts = [record.message for record in caplog.records]
    assert len(texts) == 2
    assert "cannot be written" in texts[0]
    assert "lacks 3 calls" in texts[1]


def test_only_where_a_setting_asks_for_it_anything_is_recorded(
    inner: FakePolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    policy = RecordingPolicy(FakePolicy(Decision("grpc")), tmp_path / "run.jsonl")
    received = ReceivedItems(2, lambda: policy.digest("/team.v1.A/Watch", Decision("grpc")))
    for _ in range(4):
        received.add(b"item")
    assert (received.items, received.rest, received.wants_more) == ([b"item"] * 2, "", False)
