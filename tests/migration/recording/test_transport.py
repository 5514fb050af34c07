"""A recorded transport: its user sees what he would see without it, and all of it is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.codec.flatbuffers import decode
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, LocalProtocolError, Unimplemented
from lucky_transport.messages.methods import method
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities, Frame, Transport
from lucky_transport_migration.recording.entries import RecordedCall, Step
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.recording.recorded_transport import RecordedTransport, recorded_endpoint
from tests.support.waiting import PATIENCE_S

Serve = Callable[..., str]


LIST = method("SceneService/ListEntities")


SLOTS = method("AgentService/StreamPolicySlotState")


@pytest.fixture
def opened(serve_toy: Serve, tmp_path: Path) -> RecordedTransport:
    transport = lucky_transport.api.open_transport(recorded_endpoint(serve_toy(), tmp_path / "run.jsonl"))
    assert isinstance(transport, RecordedTransport)
    return transport


def entries(tmp_path: Path) -> list[RecordedCall | Step]:
    return list(Recording(tmp_path / "run.jsonl").entries())


def trajectory(endpoint: str) -> list[Frame]:
    with lucky_transport.make(endpoint=endpoint) as env:
        env.reset(seed=3)
        env.action_space.seed(3)
        return [env.step(env.action_space.sample()) for _ in range(30)]  # pyright: ignore[reportReturnType]


def test_a_recorded_env_goes_the_same_way_bit_for_bit(serve_toy: Serve, tmp_path: Path) -> None:
    plain = trajectory(serve_toy())
    recorded = trajectory(str(recorded_endpoint(serve_toy(), tmp_path / "run.jsonl")))
    for one, other in zip(plain, recorded, strict=True):
        for x, y in zip(one[:4], other[:4], strict=True):  # pyright: ignore[reportIndexIssue]
            np.testing.assert_array_equal(x, y, strict=True)


def test_a_step_is_written_with_what_was_sent_and_what_came(opened: RecordedTransport, tmp_path: Path) -> None:
    actions = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    frame = opened.step(actions, np.array([1, 0, 2], np.uint8))
    opened.close()
    (step,) = entries(tmp_path)
    assert isinstance(step, Step)
    assert (step.step, step.actions, step.control) == (1, actions.tobytes(), b"\x01\x00\x02")
    assert step.observations == frame.observations.tobytes()
    assert step.rewards == frame.rewards.tobytes()
    assert step.signals == frame.signals.tobytes()
    assert step.us > 0


def test_actions_written_in_place_are_recorded_as_they_were_sent(opened: RecordedTransport, tmp_path: Path) -> None:
    opened.actions[:] = 0.25
    opened.send(opened.actions)
    opened.actions[:] = 0.75
    opened.recv()
    opened.close()
    (step,) = entries(tmp_path)
    assert isinstance(step, Step)
    assert set(np.frombuffer(step.actions, np.float32)) == {np.float32(0.25)}


def test_what_is_refused_before_it_is_sent_is_not_written(opened: RecordedTransport, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shape"):
        opened.step(np.zeros((1, 1)))
    with pytest.raises(LocalProtocolError):
        opened.recv()
    with pytest.raises(TypeError):
        opened.call(LIST, object())
    opened.close()
    assert entries(tmp_path) == []


def test_a_failed_call_is_written_with_its_status_and_raised(opened: RecordedTransport, tmp_path: Path) -> None:
    unknown = method("SceneService/GetEntity")
    with pytest.raises(Unimplemented) as caught:
        opened.call(unknown, unknown.request(name="nobody"), Deadline(5))
    opened.close()
    (call,) = entries(tmp_path)
    assert isinstance(call, RecordedCall)
    assert (call.call, call.code, call.details) == (unknown.name, "UNIMPLEMENTED", str(caught.value))


def test_a_stream_is_one_entry_and_says_that_it_was_left(opened: RecordedTransport, tmp_path: Path) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        items = [next(stream) for _ in range(3)]
    stream.cancel()
    opened.close()
    (call,) = entries(tmp_path)
    assert isinstance(call, RecordedCall)
    assert [decode(SLOTS.response, item) for item in call.items] == items
    assert (call.left, call.moved, call.more) == (True, False, 0)


def test_a_stream_beside_which_the_world_moved_says_so(opened: RecordedTransport, tmp_path: Path) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        next(stream)
        opened.step(np.zeros((3, 2), np.float32))
    opened.close()
    _, call = entries(tmp_path)
    assert isinstance(call, RecordedCall)
    assert call.moved


def test_of_a_long_stream_the_first_items_are_kept(opened: RecordedTransport, tmp_path: Path) -> None:
    with opened.stream(SLOTS, SLOTS.request(), Deadline(PATIENCE_S)) as stream:
        assert len(list(stream)) == 300
    opened.close()
    (call,) = entries(tmp_path)
    assert isinstance(call, RecordedCall)
    assert (len(call.items), call.more, call.left) == (256, 44, False)


def test_every_connection_is_recorded_where_the_environment_says_so(
    serve_toy: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCKY_RECORD", str(tmp_path / "run.jsonl"))
    endpoint = serve_toy()
    for _ in range(2):
        with lucky_transport.connect(endpoint) as client:
            client.scene.list_entities()
    assert [entry.call for entry in entries(tmp_path) if isinstance(entry, RecordedCall)] == [LIST.name] * 2
    header = Recording(tmp_path / "run.jsonl").header
    assert (header.endpoint, header.transport, header.engine) == (endpoint, "inproc", "toy")


async def _list(endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        await client.scene.list_entities()


def test_calls_of_asyncio_are_recorded_too(serve_toy: Serve, tmp_path: Path) -> None:
    import asyncio

    asyncio.run(_list(str(recorded_endpoint(serve_toy(), tmp_path / "run.jsonl"))))
    assert [type(entry) for entry in entries(tmp_path)] == [RecordedCall]


@pytest.mark.parametrize("endpoint", ["recorded:", "recorded:?to=inproc%3A", "recorded:?file=run.jsonl"])
def test_an_endpoint_without_a_target_or_a_file_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="needs to= and file="):
        lucky_transport.connect(endpoint)


def test_a_wrong_seed_is_refused(serve_toy: Serve, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seed = 'x'"):
        lucky_transport.connect(f"recorded:?to={serve_toy()}&file={tmp_path / 'run.jsonl'}&seed=x")


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
