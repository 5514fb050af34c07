"""The host: one lock, one driver, the driver's own memory, words for every refusal, and answers that become bytes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    MAX_TEXT_BYTES,
    Busy,
    Cancelled,
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    UnknownName,
)
from lucky_transport.host.encoding import encode_answer, response_encoder
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    GetJointStateRequest,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
    ImageFrame,
)
from lucky_transport.messages.methods import method
from lucky_transport.rpc.typed import CallStream
from lucky_transport.shm.slot_files.image_store import SLOTS
from tests.core.shm.test_images import Ends
from tests.support.message_strategies import messages
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S

SCHEMA = method("AgentService/GetAgentSchema")
INFO = method("MujocoService/GetMujocoInfo")


JOINTS = method("MujocoService/GetJointState")


class Dirty(ToyEngine):
    """Rewards even a reset."""

    def step(self, control: NDArray[np.uint8] | None) -> None:
        super().step(control)
        out = self._buffers
        out.rewards[:] = 7
        out.terminated[:] = out.truncated[:] = 1
        out.signals[:] = 9


def _buffers(host: Host) -> Buffers:
    return Buffers.allocate(host.spec)


def test_a_new_driver_sees_the_last_frame_at_once(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.step()
    lease.release()
    host.drive("second", second)
    for name in ("observations", "rewards", "terminated", "truncated", "signals"):
        assert getattr(second, name).tobytes() == getattr(first, name).tobytes(), name


def test_a_released_drivers_buffers_are_never_touched_again(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.release()
    kept = first.observations.copy()
    host.drive("second", second).step()
    assert first.observations.tobytes() == kept.tobytes() != second.observations.tobytes()


def test_an_idle_driver_can_be_replaced_and_then_drives_no_more(host: Host) -> None:
    old = host.drive("idle one", _buffers(host), is_idle=lambda: True)
    host.drive("busy one", _buffers(host))
    with pytest.raises(Busy, match="no longer driven by idle one; connect again"):
        old.step()
    old.release()
    assert host.driver == "busy one"


def test_releasing_twice_is_releasing_once(host: Host) -> None:
    lease = host.drive("me", _buffers(host))
    lease.release()
    lease.release()
    assert host.driver == ""


def test_reset_envs_have_no_outcome_whatever_the_engine_wrote() -> None:
    host = Host(Dirty(3, reset_ticks=1))
    buffers = _buffers(host)
    host.drive("me", buffers).step(np.array([RESET, 0, HOLD], np.uint8))
    assert buffers.rewards.tolist() == [0, 7, 7]
    assert buffers.terminated.tolist() == buffers.truncated.tolist() == [0, 1, 1]
    assert buffers.signals[:, 0].tolist() == [0, 0, 0, 0]
    assert (buffers.signals[:, 1:] == 9).all()


def test_closing_ends_the_engine_once_and_refuses_new_drivers() -> None:
    closed: list[bool] = []
    host = Host(ScriptedEngine(on_close=lambda: closed.append(True)))
    lease = host.drive("me", _buffers(host))
    host.close()
    host.close()
    assert closed == [True]
    with pytest.raises(ClosedError, match="the engine is closing"):
        host.drive("late", _buffers(host))
    with pytest.raises(ClosedError, match="the engine is closing"):
        lease.step()


def test_an_engine_that_hangs_in_a_step_is_left_open(caplog: pytest.LogCaptureFixture) -> None:
    inside, may_go = threading.Event(), threading.Event()

    closed: list[bool] = []

    def hang(control: Any) -> None:
        inside.set()
        assert may_go.wait(PATIENCE_S)

    host = Host(ScriptedEngine(on_step=hang, on_close=lambda: closed.append(True)))
    lease = host.drive("me", _buffers(host))
    with ThreadPoolExecutor(1) as pool:
        stepping = pool.submit(lease.step)
        assert inside.wait(PATIENCE_S)
        host.close(timeout_s=0.05)
        assert not closed
        assert "engine 'toy' is still in a step after 0.05 s; not closed" in caplog.text
        may_go.set()
        stepping.result(PATIENCE_S)
    host.close()
    assert closed == [True]


COUNTING = method("TelemetryService/StreamTelemetry")


@pytest.mark.parametrize("raised", [UnknownName, ValueError])
@pytest.mark.parametrize("letter", ["x", "ü", "机", "👾"])
def test_no_error_says_more_than_every_wire_can_carry(letter: str, raised: type[Exception]) -> None:
    def refuse(request: GetMujocoInfoRequest) -> GetMujocoInfoResponse:
        raise raised(letter * length)

    host = Host(ScriptedEngine(services={INFO.name: refuse}))
    for length in (1, 700, 100_000):
        with pytest.raises(UnknownName if raised is UnknownName else EngineFailed) as caught:
            host.call(INFO, GetMujocoInfoRequest())
        said = str(caught.value)
        assert len(said.encode()) <= MAX_TEXT_BYTES
        if length == 100_000:
            assert said.endswith(f"{letter} ...")
            assert len(said.encode()) > MAX_TEXT_BYTES - 4
        else:
            assert said.endswith(letter * length)


def test_a_cancelled_call_is_not_made(host: Host) -> None:
    call = Call("me")
    call.end()
    with pytest.raises(Cancelled, match="GetAgentSchema was cancelled"):
        host.call(SCHEMA, GetAgentSchemaRequest(), call)


def test_a_call_waits_for_the_step_in_progress_only_until_its_deadline() -> None:
    entered, resume = threading.Event(), threading.Event()

    def wait(control: Any) -> None:
        entered.set()
        resume.wait(PATIENCE_S)

    host = Host(ScriptedEngine(on_step=wait))
    lease = host.drive("me", _buffers(host))
    stepping = threading.Thread(target=lease.step)
    stepping.start()
    entered.wait(PATIENCE_S)
    with pytest.raises(PeerTimeout, match=r"GetJointState did not end within 0\.02 s"):
        host.call(JOINTS, GetJointStateRequest(), Call("you", Deadline(0.02)))
    resume.set()
    stepping.join()
    assert host.call(JOINTS, GetJointStateRequest()).success


def test_a_stream_is_no_call_and_a_call_no_stream(host: Host) -> None:
    with pytest.raises(LocalProtocolError, match=r"StreamTelemetry is a stream: .*; use stream\(\)"):
        host.call(COUNTING, COUNTING.request())
    with pytest.raises(LocalProtocolError, match=r"GetAgentSchema is no stream: .*; use call\(\)"):
        next(host.stream(SCHEMA, GetAgentSchemaRequest(), Call("me")))


@pytest.mark.parametrize(("deadline", "error"), [(None, Cancelled), (Deadline(0), PeerTimeout)])
def test_a_stream_of_an_ended_call_never_begins(host: Host, deadline: Deadline | None, error: type[Exception]) -> None:
    call = Call("me", deadline)
    call.end()
    with pytest.raises(error, match=COUNTING.name):
        next(host.stream(COUNTING, COUNTING.request(), call))


_CAMERA = method("CameraService/StreamCamera")
_IMAGE = bytes(range(48))


class Stream(Ends):
    """A stream of images in shared memory, as a handler's call has it, and who reads them."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.call = cast(Any, SimpleNamespace(image_sink=self.image_sink))

    def drawn(self, **fields: Any) -> Any:
        """Return a frame whose image was drawn in place."""
        buffer = self.image_sink.buffer(len(_IMAGE))
        buffer[:] = _IMAGE
        return ImageFrame(buffer, width=4, height=4, channels=3, **fields)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    made = Stream(tmp_path / "segment")
    yield made
    made.image_sink.end(lost=True)
    made.store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=messages(ImageFrame))
def test_the_message_is_the_same_whether_its_image_was_drawn_or_copied(stream: Stream, frame: ImageFrame) -> None:
    drawn, places = encode_answer(_CAMERA, stream.call, replace(frame, data=stream.drawn().data))
    stream.image_sink.take_back(places)
    copied, places = encode_answer(_CAMERA, stream.call, replace(frame, data=_IMAGE))
    stream.image_sink.take_back(places)
    assert drawn == copied == encode(replace(frame, data=b""))


@pytest.mark.parametrize("is_drawn", [True, False], ids=["drawn", "copied"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("width", "four"), ("frame_number", -1), ("timestamp_ms", None), ("format", b"\xff")],
)
def test_a_frame_that_cannot_be_encoded_is_the_engines_fault_and_keeps_no_slot(
    stream: Stream, is_drawn: bool, field: str, value: Any
) -> None:
    for _ in range(SLOTS + 1):
        frame = stream.drawn() if is_drawn else ImageFrame(_IMAGE, width=4, height=4, channels=3)
        setattr(frame, field, value)
        with pytest.raises(EngineFailed, match=rf"answer to .*StreamCamera is no ImageFrame: .*{field}"):
            encode_answer(_CAMERA, stream.call, frame)
    assert len(stream.files) == 1


def test_an_image_that_is_no_bytes_is_the_engines_fault(stream: Stream) -> None:
    with pytest.raises(EngineFailed, match=r"answer to .*StreamCamera is no ImageFrame: .*data"):
        encode_answer(_CAMERA, stream.call, ImageFrame(cast(Any, "text"), width=4, height=4, channels=3))


@pytest.mark.parametrize("item", [None, b"raw", 7, ImageFrame])
def test_an_item_of_another_class_is_the_engines_fault(stream: Stream, item: Any) -> None:
    named = rf"the engine's answer to .*StreamCamera is no ImageFrame: it is {type(item).__name__}"
    with pytest.raises(EngineFailed, match=named):
        encode_answer(_CAMERA, stream.call, item)
    with pytest.raises(EngineFailed, match=named):
        response_encoder(_CAMERA)(item)


@pytest.mark.parametrize("copy", [True, False])
def test_a_reader_of_growing_images_lets_go_of_the_files_they_left(stream: Stream, copy: bool) -> None:
    sizes = [1 << bits for bits in range(12, 24)]
    mapped: list[int] = []

    def items() -> Iterator[Any]:
        for size in sizes:
            payload, places = encode_answer(_CAMERA, stream.call, ImageFrame(bytes([size.bit_length()]) * size))
            yield stream.reader.claim(payload, places)
            mapped.append(len(stream.reader.files))

    coming = items()
    call = SimpleNamespace(recv=lambda: next(coming, None), is_ended=lambda: True, cancel=lambda: None, dropped=0)
    calls = SimpleNamespace(images=stream.reader)
    frames = CallStream(cast(Any, calls), cast(Any, call), ImageFrame, copy)
    seen = [(len(frame.data), frame.data[0], frame.data[-1]) for frame in frames]
    assert seen == [(size, size.bit_length(), size.bit_length()) for size in sizes]
    assert max(mapped) == 1
    assert not stream.reader.files
