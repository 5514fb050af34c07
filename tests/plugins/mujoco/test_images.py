"""Pixels: the robot is where it must be, and both ways of drawing show the same."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport import messages as m
from lucky_transport.errors import ClosedError, SpecError
from lucky_transport_mujoco import robot
from lucky_transport_mujoco.sensors.render_scene import BEHIND, RenderScene, Snapshot
from lucky_transport_mujoco.sensors.render_thread import RenderRequest, RenderThread

LEVEL = np.array([1.0, 0, 0, 0])
UPHILL = np.array([np.cos(0.13), 0, -np.sin(0.13), 0])
WIDTH, HEIGHT = 160, 120


def standing(x: float = 0.0, y: float = 0.0, *, tilt: NDArray[np.float64] = LEVEL, bumps_m: float = 0.0) -> Snapshot:
    """Return a snapshot of the robot standing there."""
    body = robot.load()
    qpos = body.home[1 : 1 + body.nq].copy()
    qpos[:2] = x, y
    qpos[2] += x * np.tan(0.26) if tilt is UPHILL else bumps_m
    return Snapshot(qpos, tilt, bumps_m)


def request(snapshot: Snapshot, view: str = BEHIND, **changes: Any) -> RenderRequest:
    """Return a request for a small image."""
    usual: dict[str, Any] = {"width": WIDTH, "height": HEIGHT}
    return RenderRequest(snapshot, view, **usual | changes)


def eye(snapshot: Snapshot, view: str = BEHIND) -> Any:
    """Return where a view of the snapshot is from."""
    scene = RenderScene()
    scene.show(snapshot)
    scene.look(view)
    return scene.eye


def project(eye: Any, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where points (k, 3) before the eye are seen in a small image: x and y in pixels, depth in metres."""
    away = points - eye.place
    depth = away @ eye.forward
    scale = HEIGHT / (2 * eye.opening * depth)
    return np.stack([WIDTH / 2 + away @ eye.right * scale, HEIGHT / 2 - away @ eye.up * scale, depth], axis=1)


def opengl_works() -> bool:
    render_thread = RenderThread("opengl")
    try:
        render_thread.depth(request(standing(), width=8, height=8))
    except SpecError:
        return False
    finally:
        render_thread.close()
    return True


def drawn_by(renderer: str) -> Generator[RenderThread]:
    if renderer == "opengl" and not opengl_works():
        pytest.skip("no OpenGL on this machine")
    made = RenderThread(renderer)
    yield made
    made.close()


@pytest.fixture(scope="module", params=["rays", "opengl"])
def render_thread(request: pytest.FixtureRequest) -> Generator[RenderThread]:
    yield from drawn_by(request.param)


@pytest.fixture(scope="module")
def by_opengl() -> Generator[RenderThread]:
    yield from drawn_by("opengl")


def is_trunk(image: NDArray[Any]) -> NDArray[np.bool_]:
    """Return bool (height, width): which pixels are orange, as only the robot's trunk is."""
    red, green, blue = (image[..., channel].astype(int) for channel in range(3))
    return (red > 50) & (red > 1.4 * green) & (green > 1.4 * blue)


def middle(mask: NDArray[np.bool_]) -> tuple[float, float]:
    rows, columns = np.nonzero(mask)
    return float(columns.mean()), float(rows.mean())


def test_the_trunk_is_seen_where_geometry_says(render_thread: RenderThread) -> None:
    snapshot = standing(3.0, -2.0)
    for view in ("track", "top", BEHIND):
        x, y, depth = project(eye(snapshot, view), snapshot.qpos[None, :3])[0]
        trunk = is_trunk(render_thread.colour(request(snapshot, view)))
        assert trunk.sum() > 20
        assert middle(trunk) == pytest.approx((x, y), abs=3)
        metres = render_thread.depth(request(snapshot, view))
        assert 0 < depth - metres[int(y), int(x)] < 0.25  # the trunk's surface is before its middle


def test_an_image_is_opaque_rgba_with_sky_above_and_squares_below(render_thread: RenderThread) -> None:
    image = render_thread.colour(request(standing(), "front"))
    assert image.shape == (HEIGHT, WIDTH, 4)
    assert image.dtype == np.uint8
    assert (image[..., 3] == 255).all()
    sky, floor = image[2, :, :3].astype(int), image[HEIGHT - 20 :, :, 1]
    assert (sky[:, 2] > sky[:, 0] + 10).all()
    assert np.isinf(render_thread.depth(request(standing(), "front"))[2]).all()
    assert int(floor.max()) - int(floor.min()) > 15  # light and dark squares


def test_depth_is_the_distance_along_the_axis_of_sight(render_thread: RenderThread) -> None:
    """The "top" camera hangs 2.2 m above the trunk's middle, so every pixel of flat ground is equally deep."""
    metres = render_thread.depth(request(standing(), "top"))
    assert np.median(metres) == pytest.approx(2.2 + 0.28, abs=2e-3)
    assert metres.min() == pytest.approx(2.2 - 0.05, abs=2e-3)  # the top of the trunk


def test_rough_and_sloping_ground_are_seen_and_flat_ground_hides_the_bumps(render_thread: RenderThread) -> None:
    flat = render_thread.depth(request(standing(), "top"))
    rough = render_thread.depth(request(standing(bumps_m=0.08), "top"))
    sloping = render_thread.depth(request(standing(tilt=UPHILL), "top"))
    assert np.ptp(rough[:20]) > 0.01
    assert np.ptp(flat[:20]) < 1e-3
    assert sloping[2].mean() < sloping[-3].mean() - 0.2  # uphill is nearer to a camera above
    assert np.array_equal(render_thread.depth(request(standing(), "top")), flat)


def test_the_robot_casts_a_shadow_by_opengl(by_opengl: RenderThread) -> None:
    image = by_opengl.colour(request(standing(), "top"))
    ground = by_opengl.depth(request(standing(), "top")) > 2.45
    brightness = image[..., 1][ground].astype(int)
    dark = brightness < 0.6 * np.median(brightness)
    assert 20 < dark.sum() < 0.1 * dark.size


def test_a_line_in_the_open_is_drawn_by_opengl_and_one_behind_the_trunk_is_hidden(by_opengl: RenderThread) -> None:
    snapshot = standing()

    def line(x: float, z: float) -> m.DebugLine:
        return m.DebugLine(m.DebugVector3(-x, 0, z), m.DebugVector3(x, 0, z), m.DebugColor(1, 0, 0, 1))

    def reddened(view: str, drawn: m.DebugLine) -> NDArray[np.bool_]:
        plain = by_opengl.colour(request(snapshot, view))
        return (by_opengl.colour(request(snapshot, view, drawings=[drawn])) != plain).any(axis=2)

    seen = reddened(BEHIND, line(0.6, 0.6))
    ends = project(eye(snapshot), np.array([[-0.6, 0, 0.6], [0.6, 0, 0.6]]))
    for x, y, _ in (0.2 * ends[0] + 0.8 * ends[1], 0.8 * ends[0] + 0.2 * ends[1]):
        assert seen[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3].any()
    columns = np.nonzero(seen.any(axis=0))[0]
    assert columns.min() == pytest.approx(min(ends[:, 0]), abs=3)
    assert columns.max() == pytest.approx(max(ends[:, 0]), abs=3)
    assert seen.sum() < 0.02 * seen.size
    assert not reddened("top", line(0.1, 0.2)).any()
    assert reddened("top", line(0.6, 0.6)).any()


def test_both_ways_of_drawing_show_the_same() -> None:
    if not opengl_works():
        pytest.skip("no OpenGL on this machine")
    studios = RenderThread("opengl"), RenderThread("rays")
    try:
        for snapshot in (standing(1.0, 2.0), standing(bumps_m=0.05), standing(tilt=UPHILL)):
            for view in ("track", "front", "top", BEHIND):
                one, other = (each.depth(request(snapshot, view)) for each in studios)
                both = np.isfinite(one) & np.isfinite(other)
                assert np.mean(np.isfinite(one) == np.isfinite(other)) > 0.99
                assert np.mean(np.abs(one[both] / other[both] - 1) < 0.01) > 0.99
                one, other = (each.colour(request(snapshot, view)).astype(int) for each in studios)
                assert np.abs(one - other).mean() < 12
                assert np.mean(is_trunk(one) == is_trunk(other)) > 0.98
    finally:
        for each in studios:
            each.close()


def test_images_of_any_size_and_larger_after_smaller_are_whole(render_thread: RenderThread) -> None:
    for width, height in ((1, 1), (33, 7), (800, 600), (64, 500)):
        image = render_thread.colour(request(standing(), width=width, height=height))
        assert image.shape == (height, width, 4)
        assert render_thread.depth(request(standing(), width=width, height=height)).shape == (height, width)
    large = is_trunk(render_thread.colour(request(standing(), width=800, height=600)))
    x, y = middle(large)
    assert (x / 800, y / 600) == pytest.approx((0.5, 0.5), abs=0.03)


def test_a_closed_render_thread_takes_no_requests_and_closes_twice() -> None:
    render_thread = RenderThread("rays")
    render_thread.depth(request(standing(), width=4, height=4))
    render_thread.close()
    render_thread.close()
    with pytest.raises(ClosedError):
        render_thread.colour(request(standing()))


def test_without_opengl_images_come_from_rays_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lucky_transport_mujoco.sensors.render_thread.platforms", lambda: ["no_such_platform"])
    monkeypatch.setattr("lucky_transport_mujoco.sensors.render_thread._broken", {})
    monkeypatch.setattr("lucky_transport_mujoco.sensors.render_thread._logged", set())
    with caplog.at_level("INFO", logger="lucky_transport"):
        for _ in range(2):
            render_thread = RenderThread("auto")
            assert is_trunk(render_thread.colour(request(standing()))).any()
            render_thread.close()
    said = [record.getMessage() for record in caplog.records if record.name == "lucky_transport"]
    assert len(said) == 1
    assert "no_such_platform: ModuleNotFoundError" in said[0]
    assert "ray casting" in said[0]
    render_thread = RenderThread("opengl")
    with pytest.raises(SpecError, match=r"no OpenGL works here.*use 'auto'"):
        render_thread.colour(request(standing()))
    render_thread.close()


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.builds(m.DebugVector3, numbers, numbers, numbers)
colors = st.builds(m.DebugColor, numbers, numbers, numbers, numbers) | st.none()
drawings = st.lists(
    st.builds(m.DebugLine, vectors | st.none(), vectors, colors)
    | st.builds(m.DebugArrow, vectors, vectors | st.none(), colors, numbers)
    | st.builds(m.DebugVelocityCommand, vectors, numbers, numbers, numbers, numbers),
    max_size=3,
)


@given(shapes=drawings)
def test_drawings_of_any_size_leave_a_whole_image(by_opengl: RenderThread, shapes: list[object]) -> None:
    image = by_opengl.colour(request(standing(), width=40, height=30, drawings=shapes))
    assert (image[..., 3] == 255).all()
