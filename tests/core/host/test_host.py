"""The host: one lock, one driver with memory of its own, words for every refusal, answers as bytes, its services."""

from __future__ import annotations

import itertools
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
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    TransportError,
    Unimplemented,
    UnknownName,
)
from lucky_transport.hookspecs import ForeignServicesInfo
from lucky_transport.host import foreign
from lucky_transport.host.encoding import encode_answer, response_encoder
from lucky_transport.host.foreign import InstalledServices
from lucky_transport.host.host import Host
from lucky_transport.host.service_switch import ServiceSwitch
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    GetJointStateRequest,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
    ImageFrame,
    NegotiateTaskRequest,
    ObservationContract,
    ObservationTermRequest,
    RewardContract,
    RewardTermRequest,
    TaskContract,
)
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.rpc.typed import CallStream
from lucky_transport.shm.slot_files.image_store import SLOTS
from tests.core.host.conftest import Parrots
from tests.core.shm.test_images import Ends
from tests.support.message_strategies import messages
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, beside

SCHEMA = method("AgentService/GetAgentSchema")
TELEMETRY = method("TelemetryService/StreamTelemetry")
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
    with beside(lease.step):
        entered.wait(PATIENCE_S)
        with pytest.raises(PeerTimeout, match=r"GetJointState did not end within 0\.02 s"):
            host.call(JOINTS, GetJointStateRequest(), Call("you", Deadline(0.02)))
        resume.set()
    assert host.call(JOINTS, GetJointStateRequest()).success


def test_a_stream_is_no_call_and_a_call_no_stream(host: Host) -> None:
    with pytest.raises(LocalProtocolError, match=r"StreamTelemetry is a stream: .*; use stream\(\)"):
        host.call(TELEMETRY, TELEMETRY.request())
    with pytest.raises(LocalProtocolError, match=r"GetAgentSchema is no stream: .*; use call\(\)"):
        next(host.stream(SCHEMA, GetAgentSchemaRequest(), Call("me")))


@pytest.mark.parametrize(("deadline", "error"), [(None, Cancelled), (Deadline(0), PeerTimeout)])
def test_a_stream_of_an_ended_call_never_begins(host: Host, deadline: Deadline | None, error: type[Exception]) -> None:
    call = Call("me", deadline)
    call.end()
    with pytest.raises(error, match=TELEMETRY.name):
        next(host.stream(TELEMETRY, TELEMETRY.request(), call))


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


# --- which services an engine answers: its own, the host's, those of plugins in other messages; which are off ---


MANIFEST = method("AgentService/GetCapabilityManifest")
VALIDATE = method("AgentService/ValidateTaskContract")
NEGOTIATE = method("AgentService/NegotiateTask")


@pytest.mark.parametrize(("name", "found"), [("", "agent_0"), ("agent_2", "agent_2")])
def test_the_schema_tells_sizes_and_names_of_an_agent(host: Host, name: str, found: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == (found, 8, 2)
    assert schema.action_names == ["a_0", "a_1"]


@pytest.mark.parametrize("name", ["agent_3", "agent_x", "robot", "agent_-1", "agent_٣"])
def test_the_schema_of_an_unknown_agent_has_no_sizes(host: Host, name: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.observation_size, schema.action_size) == (0, 0)


def test_the_manifest_lists_what_a_contract_may_ask_for(host: Host) -> None:
    manifest = host.call(MANIFEST, MANIFEST.request()).manifest
    assert [term.name for term in manifest.rewards] == ["alive", "centred"]
    assert [term.name for term in manifest.terminations] == ["out_of_range", "time_out"]
    assert manifest.robot_info.name == "toy"


def _contract(reward: str, observation: str = "observation", optional: str = "observation") -> TaskContract:
    return TaskContract(
        task_id="walk",
        observations=ObservationContract(
            required=[ObservationTermRequest(name=observation)], optional=[ObservationTermRequest(name=optional)]
        ),
        rewards=RewardContract(engine_terms=[RewardTermRequest(name=reward)]),
    )


def test_a_contract_that_fits_is_negotiated(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("alive")))
    assert answer.success
    assert answer.session.reward_terms == ["alive"]
    assert [(slot.offset, slot.size) for slot in answer.session.observation_layout] == [(0, 8)]


def test_a_contract_that_does_not_fit_is_refused_with_every_finding_and_the_nearest_name(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("aliv", observation="camera")))
    assert not answer.success
    assert "unknown reward term 'aliv'; the engine offers: alive, centred; did you mean 'alive'?" in answer.message
    assert "unknown observation term 'camera'" in answer.message


def test_an_unknown_optional_term_is_a_warning(host: Host) -> None:
    result = host.call(VALIDATE, VALIDATE.request(_contract("alive", optional="touch"))).result
    assert (result.resolved_optionals, result.unresolved_optionals) == ([], ["touch"])
    assert result.is_valid
    assert [warning.term_name for warning in result.warnings] == ["touch"]


@pytest.mark.parametrize("name", ["GetAgentSchema", "Step"])
def test_an_engine_may_replace_what_the_host_would_answer(name: str) -> None:
    row = method(f"AgentService/{name}")
    host = Host(ScriptedEngine(services={row.name: lambda request: "its own"}))
    assert host.call(row, row.request()) == "its own"
    assert row.name not in host.agents.answered


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> InstalledServices:
    """What is installed: a plugin whose package is missing, one that breaks, and the parrots."""
    infos = {
        name: ForeignServicesInfo(name, installed, "", extra="grpc")
        for name, installed in (
            ("absent", "no_module_of_this_name:Services"),
            ("broken", f"{__name__}:BROKEN"),
            ("parrots", f"{Parrots.__module__}:Parrots"),
        )
    }
    monkeypatch.setattr(foreign, "registry", lambda: SimpleNamespace(foreign_services=infos))
    monkeypatch.setattr(Parrots, "made", [])
    host: Any = SimpleNamespace(spec=SimpleNamespace(engine="zoo"))
    return InstalledServices(host)


def ask(installed: InstalledServices, path: str) -> list[str]:
    answers: list[str] = []
    call: Any = SimpleNamespace(path=path, name=path, payload="squawk", finish=answers.append)
    handler = installed.handler(path)
    assert handler is not None
    handler(call)
    return answers


def test_nothing_is_loaded_before_a_call_and_everything_once(installed: InstalledServices) -> None:
    installed.leave("client 7")
    assert Parrots.made == []
    assert [ask(installed, "/zoo.Parrot/Say") for _ in range(2)] == [["squawksquawk"]] * 2
    (parrots,) = Parrots.made
    installed.leave("client 8")
    installed.close()
    assert (parrots.left, parrots.closed) == (["client 8"], True)


def test_a_method_of_no_plugin_is_refused_by_the_first_call_and_not_found_next(installed: InstalledServices) -> None:
    with pytest.raises(Unimplemented, match=r"the engine does not know /zoo\.Parrot/Sing"):
        ask(installed, "/zoo.Parrot/Sing")
    assert installed.handler("/zoo.Parrot/Sing") is None


def test_a_call_that_comes_while_the_engine_closes_loads_nothing(installed: InstalledServices) -> None:
    installed.close()
    with pytest.raises(ClosedError):
        ask(installed, "/zoo.Parrot/Say")
    assert Parrots.made == []


@pytest.mark.exhaustive
def test_an_engine_over_shared_memory_starts_without_grpc() -> None:
    pytest.importorskip("grpc")
    process = EngineProcess("toy", [f"shm://{unique_name()}"])
    try:
        assert "cygrpc" not in Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.stop()


JOINT_STREAM = method("MujocoService/StreamJointState")


@pytest.fixture
def switch() -> ServiceSwitch:
    """The switch of an engine with all methods of some services."""
    offered = {"AgentService", "MujocoService", "SceneService", "TelemetryService", "BatchService"}
    return ServiceSwitch("toy", [row for row in METHODS if row.service.rpartition(".")[2] in offered])


def off(switch: ServiceSwitch) -> list[str]:
    return [name.rpartition(".")[2] for name, is_on in switch.services.items() if not is_on]


@pytest.mark.parametrize(
    "text", ["hazel.rpc.SceneService", "SceneService", "Scene*", "hazel.rpc.Scene*", "[S]ceneService"]
)
def test_a_service_goes_by_its_full_name_its_short_one_or_a_pattern(switch: ServiceSwitch, text: str) -> None:
    switch.change(off=[text])
    assert off(switch) == ["SceneService"]
    switch.change(on=[text])
    assert off(switch) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"off": ["SceneService", "SceneServce"]}, "service .* called 'SceneServce'; did you mean 'SceneService'[?]"),
        ({"on": ["LidarService"]}, "service .* is called 'LidarService'; .*its services: AgentService, "),
        ({"off": ["Sceen*"]}, "service .* fits 'Sceen[*]'"),
        ({"fps": {"SceneService": 5}}, "stream .* is called 'SceneService'; .*its streams: AgentService/Stream"),
    ],
)
def test_a_name_that_fits_nothing_is_refused_with_the_nearest_and_nothing_changes(
    switch: ServiceSwitch, change: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnknownName, match=f"^no {text}"):
        switch.change(**change)
    assert off(switch) == []


def test_a_service_that_this_engine_lacks_may_be_left_out(switch: ServiceSwitch) -> None:
    switch.change(off=["LidarService"])
    assert off(switch) == []


def test_what_cannot_be_is_refused(switch: ServiceSwitch) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"off": ["BatchService"]}, "BatchService cannot be switched off: it carries the steps"),
        ({"off": ["Scene*"], "on": ["SceneService"]}, "hazel.rpc.SceneService cannot be switched on and off at once"),
        *(({"fps": {"TelemetryService": hz}}, "items a second") for hz in (-1, float("nan"), float("inf"), True, "5")),
    ]
    for change, text in wrong:
        with pytest.raises(ConfigError, match=text):
            switch.change(**change)
    assert off(switch) == []
    assert not any(switch.streams.values())


def test_the_switch_of_an_engine_that_ends_refuses_everything_for_good(switch: ServiceSwitch) -> None:
    step = method("AgentService/Step")
    switch.check(step)
    switch.close()
    for refused in (lambda: switch.check(step), lambda: switch.change(on=["*"]), lambda: switch.check(TELEMETRY)):
        with pytest.raises(ClosedError, match="the engine is closing"):
            refused()


def test_limits_stay_until_they_are_changed_and_0_takes_one_away(switch: ServiceSwitch) -> None:
    switch.change(fps={"TelemetryService": 5, "MujocoService/StreamJointState": 7})
    switch.change(off=["SceneService"])
    assert (switch.streams[TELEMETRY.name], switch.streams[JOINT_STREAM.name]) == (5, 7)
    switch.change(fps={"*/StreamTelemetry": 0})
    assert (switch.streams[TELEMETRY.name], switch.streams[JOINT_STREAM.name]) == (0, 7)


# --- streams ---


def test_what_a_handler_raises_as_its_service_is_switched_off_is_the_refusal(switch: ServiceSwitch) -> None:
    call = Call("test")

    def items() -> Iterator[int]:
        yield 0
        while call.wait(0.01):
            pass
        raise TransportError("the handler was cancelled")

    stream = switch.stream(TELEMETRY, call, items)
    assert next(stream) == 0
    switch.change(off=["TelemetryService"])
    assert call.is_over
    with pytest.raises(Unimplemented, match="is switched off"):
        next(stream)


def test_a_stream_that_its_reader_leaves_closes_what_the_handler_returned(switch: ServiceSwitch) -> None:
    closed: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append("items")

    stream: Any = switch.stream(TELEMETRY, Call("test"), items)
    next(stream)
    stream.close()
    assert closed == ["items"]
    switch.change(off=["*"])  # finds no stream of it any more


def test_a_limit_holds_whatever_a_handler_does_and_loses_no_item(switch: ServiceSwitch) -> None:
    switch.change(fps={"*/StreamTelemetry": 500})
    call = Call("test")
    stream = switch.stream(TELEMETRY, call, itertools.count)
    assert [next(stream) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert call.held_s > 0


def test_ticks_that_a_limit_holds_back_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr("lucky_transport.call.time", SimpleNamespace(monotonic=lambda: now.s))
    call = Call("test")
    ticks = call.ticks(10)
    assert next(ticks) == 0
    now.s, call.held_s = 100.125, 100.0
    assert (next(ticks), call.dropped) == (1, 0)
    now.s += 0.5
    assert (next(ticks), call.dropped) == (6, 4)
