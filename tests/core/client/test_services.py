"""Typed service clients: each row of the table of methods is a callable; what it takes, and what it refuses."""

import ast
import inspect
import itertools
import math
import pydoc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport import client as services
from lucky_transport.call import Call
from lucky_transport.client import Client, typed
from lucky_transport.client.arguments import Arguments, keyword_of
from lucky_transport.client.service import SERVICES, ItemStream, names_of
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled
from lucky_transport.messages import (
    CameraConfig,
    EntityId,
    ImageFrame,
    ListEntitiesResponse,
    Quat,
    SetCameraConfigRequest,
    SimulationMode,
    StreamCameraRequest,
    Transform,
    Vec3,
)
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS, Method, method
from lucky_transport.transport import Stream
from tests.support.message_strategies import messages
from tests.support.scripted_engine import ScriptedEngine

#: Methods, requests and deadlines.
Sent = list[tuple[Method, Any, Deadline | None]]


class CameraToy(ScriptedEngine):
    """A toy engine whose only camera, "front", shows what it was asked for."""

    def __init__(self) -> None:
        super().__init__(2, streams={"/hazel.rpc.CameraService/StreamCamera": self._stream})
        self.calls: list[Call] = []

    def _stream(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        self.calls.append(call)
        for number in itertools.takewhile(lambda _: not call.is_over, itertools.count()):
            name = request.name or f"camera {request.id.id if request.id else None}"
            yield ImageFrame(b"", request.width, request.target_fps, 4, name, frame_number=number)


@pytest.fixture
def engine() -> CameraToy:
    return CameraToy()


@pytest.fixture
def client(engine: CameraToy) -> Iterator[Client]:
    with api.serve(engine, "inproc://services"), api.connect("inproc://services") as client:
        yield client


@pytest.fixture
def sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Every (method, request, deadline) that reaches the transport, which answers None."""
    seen: Sent = []

    def take(method: Method, request: Any, deadline: Deadline | None = None) -> None:
        seen.append((method, request, deadline))

    monkeypatch.setattr(client.transport, "call", take)
    monkeypatch.setattr(client.transport, "stream", take)
    return seen


# names


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("camera.stream", "camera.stream_camera"),
        ("camera.get_config", "camera.get_camera_config"),
        ("mujoco_scene.reset", "mujoco_scene.reset_scene"),
        ("lidar.get_scan", "lidar.get_lidar_scan"),
        ("scene.list_entities", "scene.list_entities"),
        ("debug.draw", "debug.draw"),
    ],
)
def test_a_short_name_leaves_out_the_words_of_its_service(short: str, long: str) -> None:
    service, name = short.split(".")
    assert SERVICES[service][name] is SERVICES[service][long.split(".")[1]]


def test_names_that_would_clash_stay_long() -> None:
    def row(number: int, name: str) -> Method:
        like = METHODS[0]
        return Method(number, f"/p.DoorService/{name}", like.request, like.response, like.effect, like.runs)

    open_door, open_doors, doors = row(1, "OpenDoor"), row(2, "OpenDoors"), row(3, "Doors")
    named = {"open_door": open_door, "open_doors": open_doors, "doors": doors}
    assert names_of([open_door, open_doors, doors]) == named
    shut, shut_door = row(4, "Shut"), row(5, "ShutDoor")
    assert names_of([shut, shut_door]) == {"shut": shut, "shut_door": shut_door}
    import_door = row(6, "ImportDoor")
    assert names_of([import_door]) == {"import_door": import_door}


# calls


def test_a_call_takes_the_requests_fields_and_returns_the_response(client: Client) -> None:
    entities = client.scene.list_entities(include_transforms=True)
    assert_type(entities, ListEntitiesResponse)
    assert [one.name for one in entities.entities] == ["agent_0", "agent_1"]
    assert entities.entities[0].transform is not None
    assert client.batch.set_seeds(seeds=[1, 2]).success


def test_a_timeout_becomes_the_deadline_of_that_call(client: Client, sent: Sent) -> None:
    client.agent.get_agent_schema(timeout_s=3.0)
    client.agent.get_agent_schema()
    client.telemetry.stream(fps=5, timeout_s=2)
    assert [None if deadline is None else deadline.timeout_s for _, _, deadline in sent] == [3.0, None, 2]


def test_a_steps_own_timeout_is_called_the_engines(client: Client, sent: Sent) -> None:
    client.agent.step("agent_1", actions=[0.5, 1], engine_timeout_s=0.25, timeout_s=9.0)
    ((_, request, deadline),) = sent
    assert (request.timeout_s, request.actions) == (0.25, [0.5, 1.0])
    assert deadline is not None
    assert deadline.timeout_s == 9.0


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(client: Client, timeout: float) -> None:
    with pytest.raises(ValueError, match=r"agent\.get_schema: timeout_s: expected seconds >= 0, got"):
        client.agent.get_schema(timeout_s=timeout)
    with pytest.raises(TypeError, match="timeout_s: expected seconds"):
        client.agent.get_schema(timeout_s="soon")  # type: ignore[call-overload] # pyright: ignore


# streams


def test_a_stream_is_the_transports_own_and_ends_with_the_loop(client: Client, engine: CameraToy) -> None:
    stream = client.camera.stream("front", fps=30, width=64)
    assert_type(stream, ItemStream[ImageFrame])
    assert isinstance(stream, Stream)
    for frame in stream:
        assert_type(frame, ImageFrame)
        assert (frame.format, frame.height, frame.width) == ("front", 30, 64)
        if frame.frame_number == 3:
            break
    stream.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    assert engine.calls[0].is_over


# refusals


def test_an_unknown_service_or_method_is_refused_with_the_nearest_name(client: Client) -> None:
    with pytest.raises(AttributeError, match="no service 'agents'; did you mean 'agent'\\? there are: agent, batch"):
        getattr(client, "agents")  # noqa: B009 - a type checker refuses it as an attribute
    with pytest.raises(
        AttributeError, match="batch has no method 'set_seed'; did you mean 'set_seeds'\\? it has: set_"
    ):
        getattr(client.batch, "set_seed")  # noqa: B009
    assert not hasattr(client.batch, "_repr_html_")


# what a person sees


def test_a_client_shows_what_it_has(client: Client) -> None:
    assert dir(client) == sorted([*SERVICES, "close", "implemented", "spec", "transport"])
    assert repr(client).startswith("<client of engine 'toy' (2 envs) over inproc; services: agent, mujoco, ")
    assert client.spec.num_envs == 2


def test_a_service_lists_its_methods_and_what_the_engine_lacks(client: Client) -> None:
    lines = repr(client.scene).splitlines()
    assert lines[0] == "<scene service of engine 'toy' over inproc"
    (listing,) = [line for line in lines if line.startswith("  list_entities(")]
    assert listing == (
        "  list_entities(include_transforms=False, *, include_components=False, timeout_s=None) -> ListEntitiesResponse"
    )
    (missing,) = [line for line in lines if line.startswith("  get_entity(")]
    assert missing.endswith("(not implemented by this engine)")


def test_the_methods_an_engine_implements_can_be_listed(client: Client) -> None:
    found = client.implemented()
    assert found is not None
    assert {"camera.stream", "camera.stream_camera", "scene.list_entities", "batch.set_seeds"} <= found
    assert "mujoco_scene.get_model_info" not in found


def test_where_the_transport_cannot_tell_nothing_is_claimed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.transport, "implements", lambda method: None)
    assert client.implemented() is None
    assert "not implemented" not in repr(client.scene)


def test_help_of_a_service_lists_its_methods_by_their_preferred_names(client: Client) -> None:
    # Newer Pythons break a signature into lines, each behind a bar.
    shown = "".join(pydoc.plain(pydoc.render_doc(client.camera)).replace("|", "").split())
    for line in ("list(self,/,*", "stream(self,name_or_id,/,*", "Thisishazel.rpc.CameraService/SetCameraConfig"):
        assert line in shown
    assert "stream_camera(" not in shown
    assert "stream_camera" in dir(client.camera)


def test_help_shows_signature_fields_and_response(client: Client) -> None:
    method = client.camera.stream
    assert str(inspect.signature(method)) == (
        '(name_or_id, /, *, fps=0, width=0, height=0, format="", timeout_s=None, copy=True) -> stream of ImageFrame'
    )
    text = inspect.getdoc(method)
    assert text is not None
    assert "hazel.rpc.CameraService/StreamCamera" in text
    assert "Yields ImageFrame(data, width, height" in text
    assert method.__name__ == "stream"
    assert method.__qualname__ == "CameraService.stream"


@pytest.mark.parametrize("attribute", list(SERVICES))
def test_every_method_has_a_docstring_and_a_signature(client: Client, attribute: str) -> None:
    service = getattr(client, attribute)
    for name in dir(service):
        method = getattr(service, name)
        assert inspect.getdoc(method)
        assert "timeout_s" in inspect.signature(method).parameters


@pytest.mark.parametrize("prefix", ["", "Async"])
@pytest.mark.parametrize("attribute", list(SERVICES))
def test_the_stub_has_all_names_of_a_service_and_awaits_those_that_are_no_streams(attribute: str, prefix: str) -> None:
    name, methods = f"{prefix}{attribute.title().replace('_', '')}Service", SERVICES[attribute]
    stub = ast.parse(Path(services.__file__).with_name("typed.pyi").read_text(encoding="utf-8"))
    (declared,) = (node.body for node in stub.body if isinstance(node, ast.ClassDef) and node.name == name)
    functions = [node for node in declared if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    aliases = [ast.unparse(target) for node in declared if isinstance(node, ast.Assign) for target in node.targets]
    assert {*aliases, *(node.name for node in functions)} == set(methods)
    for node in functions:
        assert isinstance(node, ast.AsyncFunctionDef) == (prefix == "Async" and methods[node.name].stream is None)
    assert getattr(typed, name).__name__ == name


CAMERA = Arguments("camera.stream", method("CameraService/StreamCamera"))
TRANSFORM = Arguments("scene.set_entity_transform", method("SceneService/SetEntityTransform"))
MODE = Arguments("scene.set_simulation_mode", method("SceneService/SetSimulationMode"))
SEEDS = Arguments("batch.set_seeds", method("BatchService/SetSeeds"))
CONTROL = Arguments("mujoco_scene.set_control", method("MujocoSceneService/SetControl"))
DRAW = Arguments("debug.draw", method("DebugService/Draw"))
PLAY = Arguments("scene.enter_play_mode", method("SceneService/EnterPlayMode"))
CONFIG = Arguments("camera.set_config", method("CameraService/SetCameraConfig"))


# what is taken


FRONT = StreamCameraRequest(name="front", width=64)
PLACE = Transform(Vec3(1, 2, 3), Quat(0, 0, 0, 1))

#: Arguments by position and by keyword, and the request that they make.
TAKEN: list[tuple[Arguments, tuple[Any, ...], dict[str, Any], Any]] = [
    (CAMERA, ("front",), {}, StreamCameraRequest(name="front")),
    *((CAMERA, (one,), {}, StreamCameraRequest(id=EntityId(7))) for one in (7, np.uint64(7), EntityId(7))),
    (CAMERA, (), {"name": "front"}, StreamCameraRequest(name="front")),
    (CAMERA, (), {"id": 7}, StreamCameraRequest(id=EntityId(7))),
    *((CAMERA, ("a",), {fps: 30}, StreamCameraRequest(name="a", target_fps=30)) for fps in ("fps", "target_fps")),
    (CAMERA, (FRONT,), {}, FRONT),
    (TRANSFORM, (5,), {"transform": PLACE}, TRANSFORM.request(EntityId(5), PLACE)),
    (DRAW, (), {"velocity_command": None, "clear_previous": np.True_}, DRAW.request(clear_previous=True)),
    *(
        (MODE, (mode,), {}, MODE.request(SimulationMode.FAST))
        for mode in ("fast", "FAST", SimulationMode.FAST, 2, np.int32(2))
    ),
    *(
        (CONTROL, (bulk,), {}, CONTROL.request(bulk=[1.0, 2.5]))
        for bulk in ([1, 2.5], (1, 2.5), np.array([1, 2.5], np.float32), iter([1, 2.5]), [np.float64(1), 2.5])
    ),
    (CONTROL, ([math.inf, -math.inf],), {}, CONTROL.request(bulk=[math.inf, -math.inf])),
    *(
        (SEEDS, (seeds,), {"mask": bytearray(b"\x01\x00")}, SEEDS.request([1, 2], b"\x01\x00"))
        for seeds in ([1, 2], np.array([1, 2], np.uint64), range(1, 3))
    ),
    (PLAY, (), {}, PLAY.request()),
]


@pytest.mark.parametrize(("arguments", "given_values", "keywords", "request_made"), TAKEN)
def test_what_stands_for_a_field_is_taken(
    arguments: Arguments, given_values: tuple[Any, ...], keywords: dict[str, Any], request_made: Any
) -> None:
    built = arguments.build(given_values, keywords)
    assert repr(built) == repr(request_made)
    assert type(built) is type(request_made)


@given(data=st.data(), row=st.sampled_from(METHODS))
def test_whatever_a_request_can_hold_can_be_given_by_keyword(data: st.DataObject, row: Method) -> None:
    """And what comes out can be sent: the codec takes it and gives it back."""
    request: Any = data.draw(messages(row.request))
    arguments = Arguments("any.method", row)
    given_fields = {keyword_of(field): getattr(request, field.name) for field in fields_of(row.request)}
    if arguments.has_identifier:
        unused = "name" if request.id is not None else "id"
        del given_fields[unused]
        setattr(request, unused, row.request().__getattribute__(unused))
    for keyword, field in arguments.fields.items():
        value = given_fields.get(keyword)
        if field.enum is not None and value not in field.enum.__members__.values():
            del given_fields[keyword]
            setattr(request, field.name, getattr(row.request(), field.name))
    built = arguments.build((), given_fields)
    assert repr(built) == repr(request)
    assert repr(decode(row.request, encode(built))) == repr(decode(row.request, encode(request)))


# what is refused


#: What does not fit, by the class of its error: arguments by position and by keyword, and the words of the refusal.
WRONG: dict[type[Exception], list[tuple[Arguments, tuple[Any, ...], dict[str, Any], str]]] = {
    TypeError: [
        (CAMERA, (), {}, "camera.stream: expected a name or an id, got neither"),
        (CAMERA, (), {"name": "a", "id": 1}, "camera.stream: expected a name or an id, got both"),
        (CAMERA, ("a",), {"name": "b"}, "camera.stream: 'name' is given twice, by position and by keyword"),
        (CAMERA, (1.5,), {}, "camera.stream: expected a name or an id, got 1.5"),
        (CAMERA, (True,), {}, "camera.stream: expected a name or an id, got True"),
        (
            CAMERA,
            ("a", 30),
            {},
            "camera.stream takes one argument by position, got 2; fields: id, name, target_fps (or",
        ),
        (CAMERA, ("a",), {"fps": 1, "target_fps": 1}, "camera.stream: 'target_fps' and 'fps' are the same; give one"),
        (CAMERA, ("a",), {"frames": 1}, "camera.stream has no field 'frames'; did you mean 'name'? fields: id, name"),
        (CAMERA, ("a",), {"widht": 1}, "camera.stream has no field 'widht'; did you mean 'width'? fields: id, name"),
        (CAMERA, ("a",), {"timeout": 1}, "did you mean 'timeout_s'?"),
        (CAMERA, ("a",), {"width": 1.5}, "camera.stream: width: expected a whole number, got 1.5 of type float"),
        (CAMERA, ("a",), {"width": True}, "camera.stream: width: expected a whole number, got True of type bool"),
        (CAMERA, ("a",), {"width": None}, "camera.stream: width: expected a whole number, got None of type NoneType"),
        (CAMERA, ("a",), {"format": b"raw"}, "camera.stream: format: expected text, got b'raw' of type bytes"),
        (CAMERA, (CAMERA.request(), 1), {}, "camera.stream: a whole StreamCameraRequest stands alone; drop 1"),
        (CAMERA, (CAMERA.request(),), {"fps": 1}, "camera.stream: a whole StreamCameraRequest stands alone; drop fps"),
        (MODE, (1.0,), {}, "scene.set_simulation_mode: mode: expected a whole number, got 1.0 of type float"),
        (SEEDS, (["1"],), {}, "batch.set_seeds: seeds[0]: expected a whole number, got '1' of type str"),
        (SEEDS, ("12",), {}, "batch.set_seeds: seeds: expected a sequence, got '12' of type str"),
        (SEEDS, (3,), {}, "batch.set_seeds: seeds: expected a sequence, got 3 of type int"),
        (SEEDS, (), {"mask": [1]}, "batch.set_seeds: mask: expected bytes, got [1] of type list"),
        (CONTROL, ([1, "x"],), {}, "mujoco_scene.set_control: bulk[1]: expected a number, got 'x' of type str"),
        (CONTROL, ([1, True],), {}, "mujoco_scene.set_control: bulk[1]: expected a number, got True of type bool"),
        (CONTROL, ([1, None],), {}, "mujoco_scene.set_control: bulk[1]: expected a number, got None of type None"),
        (CONTROL, (), {"named": [3]}, "named[0]: expected NamedControlEntry, got 3 of type int"),
        (CONTROL, (), {"wait_for_next_step": 1}, "wait_for_next_step: expected True or False, got 1 of type int"),
        (TRANSFORM, (5,), {"transform": 3}, "transform: expected Transform, got 3 of type int"),
        (PLAY, (1,), {}, "scene.enter_play_mode takes no arguments but timeout_s, got 1"),
        (PLAY, (), {"mode": 1}, "scene.enter_play_mode has no field 'mode'; it has none but timeout_s"),
    ],
    ValueError: [
        (CAMERA, (-1,), {}, "camera.stream: id: -1 is outside uint64 (0 to 18446744073709551615)"),
        (CAMERA, ("a",), {"fps": -1}, "camera.stream: fps: -1 is outside uint32 (0 to 4294967295)"),
        (CAMERA, ("a",), {"width": 2**32}, "camera.stream: width: 4294967296 is outside uint32 (0 to 4294967295)"),
        (MODE, ("quick",), {}, "mode: no SimulationMode is called 'quick'; there are: realtime, deterministic, fast"),
        (MODE, (7,), {}, "mode: no SimulationMode has the number 7; there are: realtime, deterministic, fast"),
        (CONTROL, ([1.0, 1e39],), {}, "bulk[1]: 1e+39 is outside float32 (-3.4028235e+38 to 3.4028235e+38)"),
        (CONTROL, (np.zeros((2, 2)),), {}, "bulk: an array of shape (2, 2), expected one axis"),
        (SEEDS, ([1, -2],), {}, "seeds[1]: -2 is outside uint64 (0 to 18446744073709551615)"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "arguments", "given_values", "keywords", "words"),
    [(kind, *row) for kind, rows in WRONG.items() for row in rows],
)
def test_what_does_not_fit_is_an_error_that_says_where(
    kind: type[Exception], arguments: Arguments, given_values: tuple[Any, ...], keywords: dict[str, Any], words: str
) -> None:
    with pytest.raises(kind) as refused:
        arguments.build(given_values, keywords)
    assert words in str(refused.value)


def test_a_message_within_a_request_is_given_as_it_is() -> None:
    config = CameraConfig(width=64)
    assert CONFIG.build(("front",), {"config": config}) == SetCameraConfigRequest(name="front", config=config)
