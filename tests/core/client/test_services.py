"""Typed service clients: a row in the table of methods is a callable, with names, help and refusals for people."""

from __future__ import annotations

import ast
import inspect
import itertools
import pydoc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest

from lucky_transport import api
from lucky_transport import client as services
from lucky_transport.call import Call
from lucky_transport.client import Client, typed
from lucky_transport.client.service import SERVICES, ItemStream, names_of
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled
from lucky_transport.messages import ImageFrame, ListEntitiesResponse, StreamCameraRequest
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.transport import Stream
from tests.support.scripted_engine import ScriptedEngine


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
def sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Method, Any, Deadline | None]]:
    """Every (method, request, deadline) that reaches the transport, which answers None."""
    seen: list[tuple[Method, Any, Deadline | None]] = []

    def take(method: Method, request: Any, deadline: Deadline | None = None) -> None:
        seen.append((method, request, deadline))

    monkeypatch.setattr(client.transport, "call", take)
    monkeypatch.setattr(client.transport, "stream", take)
    return seen


# names


def test_every_method_is_an_attribute_of_its_service_by_its_long_name(client: Client) -> None:
    for row in METHODS:
        attribute = next(key for key, methods in SERVICES.items() if row in methods.values())
        assert row.python_name in dir(getattr(client, attribute))
        assert callable(getattr(getattr(client, attribute), row.python_name))


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
    assert names_of([open_door, open_doors, doors]) == {
        "open_door": open_door,
        "open_doors": open_doors,
        "doors": doors,
    }
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


def test_a_timeout_becomes_the_deadline_of_that_call(
    client: Client, sent: list[tuple[Method, Any, Deadline | None]]
) -> None:
    client.agent.get_agent_schema(timeout_s=3.0)
    client.agent.get_agent_schema()
    client.telemetry.stream(fps=5, timeout_s=2)
    assert [None if deadline is None else deadline.timeout_s for _, _, deadline in sent] == [3.0, None, 2]


def test_a_steps_own_timeout_is_called_the_engines(
    client: Client, sent: list[tuple[Method, Any, Deadline | None]]
) -> None:
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


STUB = Path(services.__file__).with_name("typed.pyi")


def _classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node for node in ast.parse(STUB.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("prefix", ["", "Async"])
@pytest.mark.parametrize("attribute", list(SERVICES))
def test_the_stub_has_all_names_of_a_service_and_no_others(attribute: str, prefix: str) -> None:
    name = f"{prefix}{attribute.title().replace('_', '')}Service"
    declared: set[str] = set()
    for node in _classes()[name].body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            declared.add(node.name)
        if isinstance(node, ast.Assign):
            declared |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert declared == set(SERVICES[attribute])
    assert getattr(typed, name).__name__ == name


def test_unary_methods_are_awaited_in_the_asynchronous_stub_and_streams_are_not() -> None:
    for attribute, methods in SERVICES.items():
        body = _classes()[f"Async{attribute.title().replace('_', '')}Service"].body
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert isinstance(node, ast.AsyncFunctionDef) == (methods[node.name].stream is None)
