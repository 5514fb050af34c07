"""CameraService, ViewportService and DebugService: settings, streams of images, and drawings in them."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport import messages as m
from lucky_transport.errors import LocalProtocolError, SpecError
from tests.plugins.mujoco.test_images import is_trunk, middle

DEPTH = m.CameraStreamKind.DEPTH


@pytest.fixture
def batch(robots: Callable[..., Any]) -> Any:
    """Two robots, seen by ray casting: it works everywhere."""
    return robots(2, renderer="rays")


@pytest.fixture
def drawing(robots: Callable[..., Any]) -> Any:
    """One robot, seen by OpenGL, which alone draws debug drawings."""
    made = robots(1, renderer="opengl")
    try:
        look(made)
    except SpecError:
        pytest.skip("no OpenGL on this machine")
    return made


def config_of(batch: Any, name: str = "front") -> m.CameraConfig:
    answer = batch.ask(m.GetCameraConfigRequest(name=name))
    assert answer.found
    return answer.config


def frames(batch: Any, count: int, **request: Any) -> list[Any]:
    """Return the first frames of a stream of 64 x 48 pixels, which is then ended."""
    usual: dict[str, Any] = {"target_fps": 200, "width": 64, "height": 48}
    wanted = m.StreamCameraRequest(**usual | request)
    stream = batch.stream("CameraService/StreamCamera", wanted)
    found = list(islice(stream, count))
    stream.cancel()
    return found


def test_cameras_are_listed_with_the_ids_the_scene_has_for_them(batch: Any) -> None:
    found = batch.ask(m.ListCamerasRequest()).cameras
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
    front = {row.name: row.id.id for row in batch.ask(m.ListCamerasRequest()).cameras}
    by_name, by_id, other = (
        frames(batch, 1, **which)[0].data
        for which in ({"name": "top"}, {"id": m.EntityId(front["top"])}, {"name": "agent_1/top"})
    )
    assert by_name == by_id
    assert by_name != other


def test_a_stream_shows_the_robot_move(batch: Any) -> None:
    with batch.stream("CameraService/StreamCamera", m.StreamCameraRequest(name="front", width=64, height=48)) as stream:
        before = next(stream).data
        batch.engine.world.qpos()[2] += 0.5
        assert next(stream).data != before


def test_depth_is_codes_of_the_configured_scale_within_the_configured_range(batch: Any) -> None:
    assert batch.ask(batch.camera("top", depth_scale=0.01, min_range=2.3, max_range=2.6)).ok
    (frame,) = frames(batch, 1, name="top", format="depth")
    assert (frame.channels, frame.depth_scale) == (1, 0.01)
    metres = np.frombuffer(frame.data, "<u2").reshape(48, 64) * 0.01
    assert np.median(metres) == pytest.approx(2.48, abs=0.011)  # the floor
    assert metres[24, 32] == 0  # the trunk is nearer than the range


def test_zero_means_the_configured_size(batch: Any) -> None:
    assert batch.ask(batch.camera("top", width=40, height=30)).ok
    (frame,) = frames(batch, 1, name="top", width=0, height=0)
    assert (frame.width, frame.height) == (40, 30)
    (frame,) = frames(batch, 1, name="top", width=20, height=0)
    assert (frame.width, frame.height) == (20, 30)


def test_settings_are_kept_for_one_camera_alone(batch: Any) -> None:
    before = config_of(batch, "track")
    assert batch.ask(batch.camera("front", width=123, baseline=0.05, detect_floor=0.25, max_range=9.0)).ok
    after = config_of(batch, "front")
    assert (after.width, after.baseline, after.detect_floor, after.max_range) == (123, 0.05, 0.25, 9.0)
    assert config_of(batch, "track") == before


def test_a_camera_that_is_off_ends_the_stream_with_the_remedy(batch: Any) -> None:
    assert batch.ask(batch.camera(record_depth=False)).ok
    with pytest.raises(LocalProtocolError, match="records no depth; SetCameraConfig with record_depth"):
        frames(batch, 1, name="front", format="depth")
    assert batch.ask(batch.camera(enabled=False)).ok
    with pytest.raises(LocalProtocolError, match="'front' is switched off; SetCameraConfig with enabled"):
        frames(batch, 1, name="front")


def test_the_images_of_a_step_come_in_the_order_of_the_requests(batch: Any) -> None:
    batch.reset()
    batch.engine.world.qpos(1)[0] += 3.3
    requests = [
        m.GetCameraFrameRequest(name="top", width=32, height=24, kind=DEPTH),
        m.GetCameraFrameRequest(id=m.EntityId(1002), name="front", width=16, height=8),  # the id counts
        m.GetCameraFrameRequest(name="front", width=32, height=24),
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
    assert batch.ask(batch.camera(enabled=False)).ok
    for request, words in (
        (m.GetCameraFrameRequest(name="tracks"), "did you mean 'track'"),
        (m.GetCameraFrameRequest(name="front"), "switched off"),
        (m.GetCameraFrameRequest(name="top", width=9000), "at most 4096"),
    ):
        with pytest.raises(ValueError, match=words):
            batch.engine.check_camera_requests(0, [request])


# --- the viewport, and drawings in it ---


RED, MAGENTA = m.DebugColor(1, 0, 0, 1), m.DebugColor(1, 0, 1, 1)


def watch(batch: Any, **request: Any) -> Any:
    """Return a stream of small images of the viewport."""
    usual: dict[str, Any] = {"target_fps": 200, "width": 160, "height": 90}
    wanted = m.StartViewportStreamRequest(**usual | request)
    return batch.stream("ViewportService/StreamViewport", wanted)


def look(batch: Any) -> NDArray[np.int64]:
    """Return one image of the viewport, (90, 160, 4)."""
    stream = watch(batch)
    frame = next(stream)
    stream.cancel()
    return np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, 4).astype(int)


def draw(batch: Any, *shapes: Any, clear: bool = False, command: m.DebugVelocityCommand | None = None) -> bool:
    """Send Draw with these lines and arrows."""
    lines = [shape for shape in shapes if isinstance(shape, m.DebugLine)]
    arrows = [shape for shape in shapes if isinstance(shape, m.DebugArrow)]
    return batch.call("DebugService/Draw", m.DebugDrawRequest(lines, arrows, command, clear)).success


def line(z: float, color: m.DebugColor | None = RED) -> m.DebugLine:
    return m.DebugLine(m.DebugVector3(-0.5, 0, z), m.DebugVector3(0.5, 0, z), color)


def count(image: NDArray[np.int64], red: bool, green: bool, blue: bool) -> int:
    """Return how many pixels are of a pure colour."""
    wanted = [image[..., i] > 150 if on else image[..., i] < 130 for i, on in enumerate((red, green, blue))]
    return int((wanted[0] & wanted[1] & wanted[2]).sum())


def test_there_is_one_viewport_and_it_tells_what_streams(batch: Any) -> None:
    def info() -> Any:
        return batch.ask(m.GetViewportInfoRequest())

    assert info().available_viewports == ["Main"]
    assert not info().current_config.streaming
    stream = watch(batch, viewport_name="Main", target_fps=12)
    found = list(islice(stream, 3))
    assert {(frame.width, frame.height, frame.channels, len(frame.data)) for frame in found} == {(160, 90, 4, 57600)}
    assert found[0].frame_number < found[1].frame_number < found[2].frame_number
    assert info().current_config == m.ViewportStreamConfig(True, "Main", 12, 160, 90)
    stream.cancel()
    assert not info().current_config.streaming


def test_the_view_follows_the_robot(batch: Any) -> None:
    before = middle(is_trunk(look(batch)))
    batch.engine.world.qpos()[:2] += 7.0, -3.0
    assert middle(is_trunk(look(batch))) == pytest.approx(before, abs=1.5)
    assert before == pytest.approx((80, 45), abs=5)


def test_lines_and_arrows_appear_in_their_colours_and_stay_until_cleared(drawing: Any) -> None:
    plain = look(drawing)
    assert count(plain, True, False, False) == count(plain, True, False, True) == 0
    assert draw(drawing, line(0.6))
    up = m.DebugArrow(m.DebugVector3(0, 0, 0.4), m.DebugVector3(0, 0, 0.15), MAGENTA, 2.0)
    assert draw(drawing, up)
    both = look(drawing)
    assert count(both, True, False, False) > 20
    assert count(both, True, False, True) > 10
    assert draw(drawing, line(0.5, None), clear=True)
    assert count(look(drawing), True, True, True) != count(plain, True, True, True)  # a shape without a colour is white
    assert draw(drawing, clear=True)
    assert np.array_equal(look(drawing), plain)


def test_an_arrow_is_as_long_as_its_direction_times_its_scale(drawing: Any) -> None:
    def rows(scale: float) -> int:
        up = m.DebugArrow(m.DebugVector3(0, 0, 0.4), m.DebugVector3(0, 0, 0.1), MAGENTA, scale)
        assert draw(drawing, up, clear=True)
        image = look(drawing)
        return int(np.ptp(np.nonzero((image[..., 0] > 150) & (image[..., 1] < 100))[0]))

    assert rows(3.0) == pytest.approx(3 * rows(1.0), abs=3)
    assert rows(0.0) == rows(1.0)  # not given


def test_a_velocity_command_is_an_arrow_ahead_and_an_arc_and_the_newest_counts(drawing: Any) -> None:
    at = m.DebugVector3(0, 0, 0.45)
    assert draw(drawing, command=m.DebugVelocityCommand(at, 0.8, 0.0, 1.2, 1.0))
    image = look(drawing)
    assert count(image, False, True, False) > 10
    assert count(image, False, False, True) > 3
    assert draw(drawing, command=m.DebugVelocityCommand(at, 0.8, 0.0, 0.0, 1.0))
    image = look(drawing)
    assert count(image, False, True, False) > 10
    assert count(image, False, False, True) == 0


def test_so_many_drawings_fit_and_one_more_needs_a_clear_picture(drawing: Any) -> None:
    assert draw(drawing, *[line(0.6)] * 2000)
    assert count(look(drawing), True, False, False) > 20
    assert not draw(drawing, line(0.6))
    assert draw(drawing, line(0.6), clear=True)
