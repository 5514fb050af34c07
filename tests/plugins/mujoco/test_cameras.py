"""CameraService: listing, settings, streams of colour and depth, and the images of a step."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.errors import LocalProtocolError, SpecError, UnknownName
from lucky_transport.messages import (
    CameraConfig,
    CameraConfigAck,
    CameraStreamKind,
    EntityId,
    GetCameraConfigRequest,
    GetCameraFrameRequest,
    ListCamerasRequest,
    SetCameraConfigRequest,
    StreamCameraRequest,
)
from lucky_transport.messages.methods import method

DEPTH = CameraStreamKind.DEPTH


@pytest.fixture
def batch(robots: Callable[..., Any]) -> Any:
    """Two robots, seen by ray casting: it works everywhere."""
    return robots(2, renderer="rays")


def config_of(batch: Any, name: str = "front") -> CameraConfig:
    answer = batch.call("CameraService/GetCameraConfig", GetCameraConfigRequest(name=name))
    assert answer.found
    return answer.config


def configure(batch: Any, name: str = "front", **changes: Any) -> CameraConfigAck:
    config = replace(config_of(batch, name), **changes)
    return batch.call("CameraService/SetCameraConfig", SetCameraConfigRequest(name=name, config=config))


def frames(batch: Any, count: int, **request: Any) -> list[Any]:
    """Return the first frames of a stream of 64 x 48 pixels, which is then ended."""
    usual: dict[str, Any] = {"target_fps": 200, "width": 64, "height": 48}
    wanted = StreamCameraRequest(**usual | request)
    stream = batch.client.stream(method("CameraService/StreamCamera"), wanted)
    found = list(islice(stream, count))
    stream.cancel()
    return found


def test_cameras_are_listed_with_the_ids_the_scene_has_for_them(batch: Any) -> None:
    found = batch.call("CameraService/ListCameras", ListCamerasRequest()).cameras
    assert [row.name for row in found] == ["track", "front", "top"]
    assert len({row.id.id for row in found}) == 3


def test_a_stream_shows_what_was_asked_for_in_rising_numbers(batch: Any) -> None:
    found = frames(batch, 3, name="track")
    assert [(frame.width, frame.height, frame.channels) for frame in found] == [(64, 48, 4)] * 3
    assert all(len(frame.data) == 64 * 48 * 4 for frame in found)
    numbers = [frame.frame_number for frame in found]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    assert {(frame.format, frame.depth_scale) for frame in found} == {("raw", 0.0)}
    assert found[0].timestamp_ms <= found[-1].timestamp_ms


def test_a_camera_is_the_same_by_name_and_by_id_and_other_robots_have_their_own(batch: Any) -> None:
    batch.reset()
    batch.engine.world.qpos(1)[0] += 3.3
    front = {row.name: row.id.id for row in batch.call("CameraService/ListCameras", ListCamerasRequest()).cameras}
    by_name, by_id, other = (
        frames(batch, 1, **which)[0].data
        for which in ({"name": "top"}, {"id": EntityId(front["top"])}, {"name": "agent_1/top"})
    )
    assert by_name == by_id
    assert by_name != other


def test_a_stream_shows_the_robot_move(batch: Any) -> None:
    stream = batch.client.stream(
        method("CameraService/StreamCamera"), StreamCameraRequest(name="front", width=64, height=48)
    )
    before = next(stream).data
    batch.engine.world.qpos()[2] += 0.5
    assert next(stream).data != before
    stream.cancel()


def test_depth_is_codes_of_the_configured_scale_within_the_configured_range(batch: Any) -> None:
    assert configure(batch, "top", depth_scale=0.01, min_range=2.3, max_range=2.6).ok
    (frame,) = frames(batch, 1, name="top", format="depth")
    assert (frame.channels, frame.depth_scale) == (1, 0.01)
    metres = np.frombuffer(frame.data, "<u2").reshape(48, 64) * 0.01
    assert np.median(metres) == pytest.approx(2.48, abs=0.011)  # the floor
    assert metres[24, 32] == 0  # the trunk is nearer than the range


def test_zero_means_the_configured_size(batch: Any) -> None:
    assert configure(batch, "top", width=40, height=30).ok
    (frame,) = frames(batch, 1, name="top", width=0, height=0)
    assert (frame.width, frame.height) == (40, 30)
    (frame,) = frames(batch, 1, name="top", width=20, height=0)
    assert (frame.width, frame.height) == (20, 30)


def test_settings_are_kept_for_one_camera_alone(batch: Any) -> None:
    before = config_of(batch, "track")
    assert configure(batch, "front", width=123, baseline=0.05, detect_floor=0.25, max_range=9.0).ok
    after = config_of(batch, "front")
    assert (after.width, after.baseline, after.detect_floor, after.max_range) == (123, 0.05, 0.25, 9.0)
    assert config_of(batch, "track") == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 0}, "width 0: expected 1 to 4096"),
        ({"height": 99999}, "height 99999: expected 1 to 4096"),
        ({"depth_scale": 0.0}, "depth_scale 0: expected metres per code"),
        ({"depth_scale": float("nan")}, "depth_scale nan: expected a finite number"),
        ({"min_range": -1.0}, "min_range -1.0: expected a finite number, 0 or more"),
        ({"min_range": 5.0, "max_range": 2.0}, "min_range 5, max_range 2: expected the first to be smaller"),
        ({"max_range": 100.0}, "max_range 100: 65535 codes of 0.001 m reach 65.535 m"),
        ({"sensor_model": 3}, "sensor_model 3: this engine measures clean depth"),
        ({"debug_channel": 2}, "debug_channel 2"),
        ({"record_mask": True}, "record_mask: no method"),
    ],
)
def test_settings_that_make_no_sense_are_refused_and_nothing_changes(
    batch: Any, changes: dict[str, Any], words: str
) -> None:
    before = config_of(batch)
    answer = configure(batch, **changes)
    assert not answer.ok
    assert words in answer.message
    assert config_of(batch) == before


def test_unknown_cameras_are_named_with_the_nearest_one(batch: Any) -> None:
    assert not batch.call("CameraService/GetCameraConfig", GetCameraConfigRequest(name="frond")).found
    with pytest.raises(UnknownName, match=r"no camera 'frond'; did you mean 'front'.*track, front, top"):
        frames(batch, 1, name="frond")
    with pytest.raises(UnknownName, match=r"no camera with id 5.*1001 \(front\)"):
        frames(batch, 1, id=EntityId(5))
    with pytest.raises(UnknownName, match="agent_7/front"):
        frames(batch, 1, name="agent_7/front")
    answer = batch.call("CameraService/SetCameraConfig", SetCameraConfigRequest(name="frond"))
    assert re.search("did you mean 'front'", answer.message)
    answer = batch.call("CameraService/SetCameraConfig", SetCameraConfigRequest(name="front"))
    assert "no config" in answer.message


def test_a_camera_that_is_off_or_too_large_an_image_ends_the_stream_with_the_remedy(batch: Any) -> None:
    with pytest.raises(SpecError, match="5000 x 48 pixels; ask for at most 4096"):
        frames(batch, 1, name="front", width=5000)
    assert configure(batch, record_depth=False).ok
    with pytest.raises(LocalProtocolError, match="records no depth; SetCameraConfig with record_depth"):
        frames(batch, 1, name="front", format="depth")
    assert configure(batch, enabled=False).ok
    with pytest.raises(LocalProtocolError, match="'front' is switched off; SetCameraConfig with enabled"):
        frames(batch, 1, name="front")


def test_the_images_of_a_step_come_in_the_order_of_the_requests(batch: Any) -> None:
    batch.reset()
    batch.engine.world.qpos(1)[0] += 3.3
    requests = [
        GetCameraFrameRequest(name="top", width=32, height=24, kind=DEPTH),
        GetCameraFrameRequest(id=EntityId(1002), name="front", width=16, height=8),  # the id counts
        GetCameraFrameRequest(name="front", width=32, height=24),
    ]
    batch.engine.check_camera_requests(0, requests)
    mine, others = batch.engine.camera_frames(0, requests), batch.engine.camera_frames(1, requests)
    assert [one.name for one in mine] == ["top", "top", "front"]
    assert [(one.frame.width, one.frame.height, one.frame.channels) for one in mine] == [
        (32, 24, 1),
        (16, 8, 4),
        (32, 24, 4),
    ]
    assert [len(one.frame.data) for one in mine] == [32 * 24 * 2, 16 * 8 * 4, 32 * 24 * 4]
    assert mine[0].frame.depth_scale > 0 == mine[1].frame.depth_scale
    assert mine[2].frame.data != others[2].frame.data  # another robot, another place
    first = mine[0].frame.frame_number
    batch.step()
    assert batch.engine.camera_frames(0, requests[:1])[0].frame.frame_number == first + 1


def test_impossible_images_of_a_step_are_refused_before_it(batch: Any) -> None:
    assert configure(batch, enabled=False).ok
    for request, words in (
        (GetCameraFrameRequest(name="tracks"), "did you mean 'track'"),
        (GetCameraFrameRequest(name="front"), "switched off"),
        (GetCameraFrameRequest(name="top", width=9000), "at most 4096"),
    ):
        with pytest.raises(ValueError, match=words):
            batch.engine.check_camera_requests(0, [request])
