"""Gymnasium's `RecordVideo` over our env writes a film of all its envs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from tests.support.pages import DOCS, blocks


def test_record_video_writes_a_film(make: Any, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    moviepy = pytest.importorskip("moviepy", reason="MoviePy is not installed: pip install moviepy")
    from gymnasium.wrappers.vector import RecordVideo

    env = RecordVideo(
        make("mujoco:quadruped", 2, render_mode="rgb_array", render_size=(96, 64)),
        str(tmp_path / "films"),
        video_aspect_ratio=(2, 1),
        step_trigger=lambda step: step == 0,
        video_length=10,
    )
    env.reset(seed=0)
    for _ in range(12):
        env.step(env.action_space.sample())
    env.close()
    (film,) = (tmp_path / "films").glob("*.mp4")
    clip = moviepy.VideoFileClip(str(film))
    assert clip.size == [192, 64]
    assert clip.fps == 50
    assert clip.n_frames >= 10
    assert clip.get_frame(0).std() > 10  # it shows something
    clip.close()


def test_the_example_of_the_guide_writes_a_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("moviepy", reason="MoviePy is not installed: pip install moviepy")
    guide = blocks(DOCS / "how-to" / "images.md", "python")
    (example,) = (block.text for block in guide if "RecordVideo" in block.text)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"lucky_transport": lucky_transport}
    exec(example.replace("100", "3").replace("101", "4"), namespace)
    assert [film.suffix for film in (tmp_path / "films").iterdir()] == [".mp4"]
