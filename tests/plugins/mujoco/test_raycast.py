"""Rays and what they hit: normals, colours, and strokes of any size over an image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.messages import DebugArrow, DebugColor, DebugLine, DebugVector3, DebugVelocityCommand
from lucky_transport_mujoco import robot
from lucky_transport_mujoco.sensors import raycast
from lucky_transport_mujoco.sensors.overlay import draw, strokes_of
from lucky_transport_mujoco.sensors.raycast import cast
from lucky_transport_mujoco.sensors.render_scene import Orbit, RenderScene, Snapshot

numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.builds(DebugVector3, numbers, numbers, numbers)
colors = st.builds(DebugColor, numbers, numbers, numbers, numbers) | st.none()
drawings = st.lists(
    st.builds(DebugLine, vectors | st.none(), vectors, colors)
    | st.builds(DebugArrow, vectors, vectors | st.none(), colors, numbers)
    | st.builds(DebugVelocityCommand, vectors, numbers, numbers, numbers, numbers),
    max_size=3,
)


def standing_scene(bumps_m: float = 0.0) -> RenderScene:
    """Return a scene with the robot on flat ground or on bumps."""
    body = robot.load()
    scene = RenderScene()
    scene.show(Snapshot(body.home[1 : 1 + body.nq].copy(), np.array([1.0, 0, 0, 0]), bumps_m))
    return scene


def test_a_normal_is_the_direction_in_which_a_surface_rises() -> None:
    """Three rays side by side hit three points of a smooth surface; what these span has the surface's normal."""
    for bumps_m in (0.0, 0.08):
        scene = standing_scene(bumps_m)
        eye = scene.eye(Orbit(0.7, 0.6, 2.0))
        rays = eye.rays(60, 45)
        hits = [cast(scene, eye.place, rays + shift) for shift in (0.0, 1e-4 * eye.right, 1e-4 * eye.up)]
        points = [
            eye.place + (rays + shift) * lengths[:, None]
            for shift, (_, lengths) in zip((0.0, 1e-4 * eye.right, 1e-4 * eye.up), hits, strict=True)
        ]
        geoms = hits[0][0]
        spanned = np.cross(points[1] - points[0], points[2] - points[0])
        spanned /= np.linalg.norm(spanned, axis=1, keepdims=True)
        found = raycast.normals(scene, geoms, points[0])
        same = np.logical_and.reduce([each[0] == geoms for each in hits])
        assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
        agree = (found * spanned).sum(axis=1)[same]
        assert np.mean(agree > 0.99) > 0.97  # a few rays straddle an edge of a box or of two bumps
        assert len(np.unique(geoms)) > 10


def test_rays_go_through_what_is_invisible_and_through_groups_left_out() -> None:
    scene = standing_scene()
    above, down = np.array([0.0, 0, 2.0]), np.array([[0.0, 0, -1.0]])
    trunk = scene.model.geom("trunk").id
    assert cast(scene, above, down)[0][0] == trunk
    scene.model.geom_rgba[trunk, 3] = 0
    assert cast(scene, above, down)[1][0] == pytest.approx(2.0)
    nothing = cast(scene, above, down, np.zeros(6, np.uint8))
    assert (nothing[0][0], nothing[1][0]) == (-1, np.inf)


def test_the_floor_has_squares_and_far_away_their_mean() -> None:
    scene = standing_scene()
    floor = np.full(2, scene.model.geom("floor").id, np.int32)
    points = np.array([[0.25, 0.25, 0], [0.75, 0.25, 0]])
    near = raycast.colours(scene, floor, points, np.ones(2))
    far = raycast.colours(scene, floor, points, np.zeros(2))
    assert not np.allclose(near[0], near[1])
    assert far[0] == pytest.approx(far[1])
    assert far[0] == pytest.approx(near.mean(axis=0))


@given(shapes=drawings)
def test_drawings_of_any_size_leave_a_whole_image(shapes: list[object]) -> None:
    eye = _EYE
    image = np.full((30, 40, 4), 7, np.uint8)
    draw(image, np.full((30, 40), 5.0, np.float32), eye, strokes_of(shapes, 0.3))
    assert (image[..., 3] == 7).all()  # opacity is not a colour


_EYE = standing_scene().eye(Orbit(0.3, 0.2, 2.0))
