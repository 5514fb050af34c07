"""`env.render()` of the quadruped: the image belongs to the last step, and is the same over every transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport import api, image_array

pytestmark = pytest.mark.usefixtures("forked_engines")


def _images(transport: str, steps: int, **arguments: Any) -> list[np.ndarray]:
    """Return the images of two robots after so many steps."""
    options = {"renderer": "rays"}
    with api.make(
        "mujoco:quadruped", 2, transport=transport, render_mode="rgb_array", options=options, **arguments
    ) as env:
        env.reset(seed=3)
        for step in range(steps):
            env.step(np.full((2, 12), 0.5 if step % 2 else -0.5, np.float32) * [[1], [-1]])
        return list(env.render())


@pytest.mark.exhaustive
def test_the_images_are_the_same_over_every_transport() -> None:
    pytest.importorskip("grpc")
    inproc, shm, grpc = (_images(transport, 3, render_size=(80, 60)) for transport in ("inproc", "shm", "grpc"))
    assert [image.shape for image in inproc] == [(60, 80, 3)] * 2
    assert [image.tobytes() for image in inproc] == [image.tobytes() for image in shm]
    assert [image.tobytes() for image in inproc] == [image.tobytes() for image in grpc]
    assert inproc[0].tobytes() != inproc[1].tobytes()


def test_an_image_shows_the_state_after_the_last_step() -> None:
    with api.make(
        "mujoco:quadruped", transport="inproc", render_mode="rgb_array", camera="front", render_size=(40, 30)
    ) as env:
        env.reset(seed=0)
        seen: set[bytes] = set()
        for _ in range(4):
            env.step(env.action_space.sample())
            (image,) = env.render()
            with env.client.camera.stream("front", width=40, height=30) as stream:
                assert image.tobytes() == image_array(next(stream))[:, :, :3].tobytes()
            seen.add(image.tobytes())
        assert len(seen) == 4
        assert env.metadata["render_fps"] == 50


def test_without_a_size_the_image_has_the_cameras_own() -> None:
    with api.make("mujoco:quadruped", transport="inproc", render_mode="rgb_array") as env:
        env.reset(seed=0)
        (image,) = env.render()
    assert image.shape == (480, 640, 3)
