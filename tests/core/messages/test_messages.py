"""Methods, messages and their images; and messages as JSON."""

import copy
import re
from dataclasses import fields, is_dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import lucky_transport
import lucky_transport.messages
from lucky_transport.errors import SpecError, UnknownName
from lucky_transport.messages import (
    AgentFrame,
    ImageFrame,
    ListEntitiesResponse,
    NamedImageFrame,
    SetSeedsRequest,
    SetSimulationModeRequest,
    SimulationMode,
    StepResponse,
)
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.images import detach, frames_of, holds_images, owned
from lucky_transport.messages.json_codec import JsonStyle
from lucky_transport.messages.method import matches, most_exact
from lucky_transport.messages.methods import BY_ID, BY_NAME, METHODS, Effect, Runs, method
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport.messages.values import EncodeError
from tests.support.message_strategies import message_classes, messages

#: Ids are stable for ever: a changed line here breaks every deployed peer. First id and names of each service.
IDS = {
    "hazel.rpc.AgentService": (
        1,
        "GetAgentSchema ResetAgent Step SetActionGroup ReportProgress GetCapabilityManifest "
        "ValidateTaskContract NegotiateTask ListRobotControllers GetRobotController ListPolicyDescriptors "
        "SetPolicyActive SetPolicyDescriptor SetPolicyDrivenJoints SetPolicyClampObservation "
        "SetPolicyPriority SetPolicyCommandFloat SetPolicyCommandBool SetPolicyGains ClearPolicyGains "
        "GetPolicyCommandFloat GetPolicyCommandBool SetMotionGraphActive GetMotionGraphActive "
        "SetMotionGraphInput GetMotionGraphInput FireMotionGraphTrigger GetPolicyBasePose GetPolicyLastAction "
        "StreamPolicySlotState StreamRobotController",
    ),
    "hazel.rpc.MujocoService": (40, "GetJointState GetMujocoInfo StreamJointState"),
    "hazel.rpc.MujocoSceneService": (
        50,
        "GetModelInfo GetFullState StreamFullState SetControl SetQpos GetActuatorGains ResetScene",
    ),
    "hazel.rpc.SceneService": (
        60,
        "GetSceneInfo ListEntities GetEntity SetEntityTransform SetSimulationMode GetSimulationMode "
        "EnterPlayMode ExitPlayMode",
    ),
    "hazel.rpc.CameraService": (80, "ListCameras StreamCamera GetCameraConfig SetCameraConfig"),
    "hazel.rpc.TelemetryService": (90, "GetTelemetrySchema StreamTelemetry"),
    "hazel.rpc.ViewportService": (100, "GetViewportInfo StreamViewport"),
    "hazel.rpc.DebugService": (110, "Draw"),
    "hazel.rpc.LidarService": (
        120,
        "SetLidarLive SetLidarConfig GetLidarConfig SetLidarReturnParams GetLidarReturnParams SetLidarPreset "
        "SetLidarSecondaryCapture BakeLidarMaterial GetLidarBakeStatus LoadLidarBake SaveLidarBake "
        "GetLidarScan GetLidarBeamCount GetLidarBeamAngles",
    ),
    "lucky_transport.v1.BatchService": (200, "SetSeeds SetResetOptions"),
    "lucky_transport.v1.StateService": (210, "GetState SetState"),
    "lucky_transport.v1.SessionService": (
        220,
        "GetWorlds CreateSession GetSession ListSessions AdvanceSession ActInSession RunSession GetLatest "
        "RestartSession DestroySession GetRecording",
    ),
}


def test_ids_never_change() -> None:
    frozen = {
        first + place: f"/{service}/{name}"
        for service, (first, names) in IDS.items()
        for place, name in enumerate(names.split())
    }
    assert {row.id: row.name for row in METHODS} == frozen


def test_ids_and_names_are_unique() -> None:
    assert len({row.id for row in METHODS}) == len({row.name for row in METHODS}) == len(METHODS)
    assert {row.name: row for row in METHODS} == BY_NAME
    assert {row.id: row for row in METHODS} == BY_ID


def test_every_message_is_known_to_the_codecs_and_has_defaults_and_slots() -> None:
    for message in message_classes():
        assert is_dataclass(message), message
        assert {field.name for field in fields_of(message)} == {field.name for field in fields(message)}, message
        assert message() == message()
        assert not hasattr(message(), "__dict__"), message


def test_what_changes_the_world_runs_between_steps_but_for_sessions_which_have_worlds_of_their_own() -> None:
    for row in METHODS:
        is_of_sessions = row.service == "lucky_transport.v1.SessionService"
        assert row.effect is not Effect.WORLD or (row.runs is Runs.ENGINE) is not is_of_sessions, row.name


def test_a_stream_runs_beside_the_steps_and_changes_nothing() -> None:
    assert {(row.effect, row.runs) for row in METHODS if row.stream} == {(Effect.READ, Runs.POOL)}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Nope/Nope", r"the services are hazel\.rpc\.AgentService, .*lucky_transport\.v1\.SessionService$"),
        ("AgentService/getJointState", r"did you mean /hazel\.rpc\.MujocoService/GetJointState\?$"),
        ("SceneService/GetSceneInf", r"did you mean /hazel\.rpc\.SceneService/GetSceneInfo\?$"),
        ("SetControl", r"did you mean /hazel\.rpc\.MujocoSceneService/SetControl\?$"),
    ],
)
def test_an_unknown_method_is_refused_with_those_it_might_be(name: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=f"no method '{name}'; {hint}"):
        method(name)


def test_fields_of_which_one_counts_are_fields_that_may_be_absent() -> None:
    for cls in message_classes():
        by_name = {field.name: field for field in fields_of(cls)}
        for name in one_of_fields(cls):
            field = by_name[name]
            assert field.optional or field.message is not None or field.kind == "str", f"{cls.__name__}.{name}"


def test_every_class_is_loaded_from_one_place_and_an_unknown_one_is_refused() -> None:
    assert {cls.__name__ for cls in message_classes()} <= set(dir(lucky_transport.messages))
    with pytest.raises(AttributeError, match=r"module 'lucky_transport\.messages' has no attribute 'Nope'"):
        _ = lucky_transport.messages.Nope  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("kind", [complex, str | None])  # on the wire an absent text is an empty one
def test_a_type_no_codec_knows_is_refused_where_it_stands(kind: Any) -> None:
    with pytest.raises(TypeError, match=re.escape(f"Odd.field: no codec knows the type {kind}")):
        fields_of(make_dataclass("Odd", [("field", kind)]))


_ENTITY = "/hazel.rpc.SceneService/GetEntity"


@pytest.mark.parametrize(
    ("fits", "patterns"),
    [
        (True, [_ENTITY, _ENTITY[1:], "SceneService/GetEntity", "SceneService/*", "*Entity", "/hazel.rpc.*", "*"]),
        (True, ["Scene*/Get[A-F]*"]),
        (False, ["GetEntity", "MujocoSceneService/*", "sceneservice/getentity", ""]),
    ],
)
def test_a_method_fits_its_names_and_patterns_of_them_and_nothing_else(fits: bool, patterns: list[str]) -> None:
    assert {pattern: matches(_ENTITY, pattern) for pattern in patterns} == dict.fromkeys(patterns, fits)


def test_the_most_exact_row_counts_wherever_it_stands() -> None:
    rows = ["*", "SceneService/GetEntity", "SceneService/*", "*/Get*"]
    assert most_exact(_ENTITY, rows) == most_exact(_ENTITY, reversed(rows)) == "SceneService/GetEntity"
    assert most_exact("/hazel.rpc.SceneService/ListEntities", rows) == "SceneService/*"
    assert most_exact("/hazel.rpc.CameraService/GetCameraConfig", rows) == "*/Get*"
    assert most_exact("/hazel.rpc.CameraService/ListCameras", rows) == "*"
    assert most_exact(_ENTITY, ["CameraService/*"]) is None


BY_NAMES = JsonStyle()
BY_NUMBERS = JsonStyle(str.upper, enum_names=False, skips_unknown=True)


@pytest.mark.parametrize(
    ("style", "plain"), [(BY_NAMES, {"mode": "FAST"}), (BY_NUMBERS, {"MODE": 2})], ids=["names", "numbers"]
)
def test_a_style_says_how_keys_and_members_of_enums_are_written(style: JsonStyle, plain: dict[str, Any]) -> None:
    codec = style.codec_of(SetSimulationModeRequest)
    message = SetSimulationModeRequest(mode=SimulationMode.FAST)
    assert codec.plain(message) == plain
    assert codec.message(plain) == message
    assert type(codec.message(plain).mode) is SimulationMode


def test_a_member_that_only_a_newer_peer_knows_is_its_number() -> None:
    assert BY_NAMES.codec_of(SetSimulationModeRequest).plain(SetSimulationModeRequest(77)) == {"mode": 77}  # type: ignore[arg-type]
    assert BY_NUMBERS.codec_of(SetSimulationModeRequest).message({"MODE": 77}).mode == 77
    with pytest.raises(EncodeError, match="no SimulationMode has the number 77"):
        BY_NAMES.codec_of(SetSimulationModeRequest).message({"mode": 77})


def test_a_key_of_no_field_is_refused_or_passed_over() -> None:
    with pytest.raises(EncodeError, match=r"SetSeedsRequest: no field 'seed'; did you mean 'seeds'"):
        BY_NAMES.codec_of(SetSeedsRequest).message({"seed": [1]})
    assert BY_NUMBERS.codec_of(SetSeedsRequest).message({"SEED": [1], "SEEDS": [2]}) == SetSeedsRequest([2])


def test_what_does_not_fit_is_named_by_its_path() -> None:
    with pytest.raises(EncodeError, match=r"ListEntitiesResponse\.entities\[1\]\.transform\.position"):
        BY_NAMES.codec_of(ListEntitiesResponse).message({"entities": [{}, {"transform": {"position": "here"}}]})
    with pytest.raises(EncodeError, match=r"ListEntitiesResponse\.entities: expected a sequence"):
        BY_NAMES.codec_of(ListEntitiesResponse).message({"entities": {"0": {}}})


def _step() -> StepResponse:
    first, second = ImageFrame(b"abc", 1, 1, 3, frame_number=1), ImageFrame(b"xy", 1, 1, 1, depth_scale=0.001)
    return StepResponse(
        True,
        observation=AgentFrame(frame_number=7),
        camera_frames=[NamedImageFrame("a", first), NamedImageFrame("none"), NamedImageFrame("b", second)],
        reward_signals={"alive": 0.5},
    )


def test_the_answers_that_can_hold_images_are_these() -> None:
    found = {method.name.rpartition("/")[2] for method in METHODS if holds_images(method.response)}
    assert found == {"Step", "StreamCamera", "StreamViewport"}


@given(message=messages(StepResponse))
def test_any_message_is_the_same_after_its_images_were_detached_and_put_back(message: StepResponse) -> None:
    before = copy.deepcopy(message)
    bare, images = detach(message)
    for frame, data in zip(frames_of(bare), images, strict=True):
        frame.data = data
    assert repr(bare) == repr(message) == repr(before)  # NaN equals nothing


def test_an_owned_message_shares_no_memory_with_the_engine() -> None:
    memory = bytearray(b"abc")
    message = ImageFrame(memoryview(memory), 1, 1, 3)
    mine = owned(message)
    memory[:] = b"xyz"
    assert mine.data == b"abc"
    assert type(mine.data) is bytes
    assert owned(mine) is mine


def test_a_depth_image_is_an_array_of_codes() -> None:
    codes = np.array([[1, 500], [65535, 0]], "<u2")
    array = lucky_transport.image_array(ImageFrame(codes.tobytes(), 2, 2, 1, depth_scale=0.001))
    assert (array.shape, array.dtype) == ((2, 2), np.uint16)
    assert np.array_equal(array, codes)


def test_an_array_is_a_view_that_cannot_be_written_to() -> None:
    memory = bytearray(6)
    array = lucky_transport.image_array(ImageFrame(memory, 2, 1, 3))
    memory[0] = 9
    assert array[0, 0, 0] == 9
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0, 0] = 1


@pytest.mark.parametrize("data", [b"", b"12345", b"1234567"])
def test_bytes_that_are_not_as_many_as_the_sizes_say_are_refused_with_both(data: bytes) -> None:
    with pytest.raises(SpecError, match=rf"{len(data)} bytes, expected 6 for 2 x 1 pixels of 3 channels .*'jpeg'"):
        lucky_transport.image_array(ImageFrame(data, 2, 1, 3, "jpeg"))
