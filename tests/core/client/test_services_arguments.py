"""From a call's arguments to its request: what is taken, and what is refused in which words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.client.arguments import Arguments, keyword_of
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages import (
    CameraConfig,
    EntityId,
    Quat,
    SetCameraConfigRequest,
    SimulationMode,
    StreamCameraRequest,
    Transform,
    Vec3,
)
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS, Method, method
from tests.support.message_strategies import messages

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


@pytest.mark.parametrize(
    ("arguments", "given_values", "keywords", "words"),
    [
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
)
def test_what_does_not_fit_is_a_type_error_that_says_where(
    arguments: Arguments, given_values: tuple[Any, ...], keywords: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError) as refused:
        arguments.build(given_values, keywords)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "given_values", "keywords", "words"),
    [
        (CAMERA, (-1,), {}, "camera.stream: id: -1 is outside uint64 (0 to 18446744073709551615)"),
        (CAMERA, ("a",), {"fps": -1}, "camera.stream: fps: -1 is outside uint32 (0 to 4294967295)"),
        (CAMERA, ("a",), {"width": 2**32}, "camera.stream: width: 4294967296 is outside uint32 (0 to 4294967295)"),
        (MODE, ("quick",), {}, "mode: no SimulationMode is called 'quick'; there are: realtime, deterministic, fast"),
        (MODE, (7,), {}, "mode: no SimulationMode has the number 7; there are: realtime, deterministic, fast"),
        (CONTROL, ([1.0, 1e39],), {}, "bulk[1]: 1e+39 is outside float32 (-3.4028235e+38 to 3.4028235e+38)"),
        (CONTROL, (np.zeros((2, 2)),), {}, "bulk: an array of shape (2, 2), expected one axis"),
        (SEEDS, ([1, -2],), {}, "seeds[1]: -2 is outside uint64 (0 to 18446744073709551615)"),
    ],
)
def test_what_is_out_of_range_is_a_value_error_that_says_where(
    arguments: Arguments, given_values: tuple[Any, ...], keywords: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError) as refused:
        arguments.build(given_values, keywords)
    assert words in str(refused.value)


def test_a_message_within_a_request_is_given_as_it_is() -> None:
    config = CameraConfig(width=64)
    assert CONFIG.build(("front",), {"config": config}) == SetCameraConfigRequest(name="front", config=config)
