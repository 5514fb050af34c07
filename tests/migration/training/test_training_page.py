"""The page of a training, made of numbers: it needs no PyTorch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from PIL import Image

from lucky_transport_migration.training.page import share, training_page, write_page


def made_up(*, equal: bool = True, compared: bool = True, pictures: int = 8) -> dict[str, Any]:
    rows = [
        {
            "env_steps": 2048 * number,
            "reward": 0.2 + 0.01 * number,
            "terms": {"track_lin_vel_xy": 0.01 * number, "track_ang_vel_z": 0.1, "gait": 0.02 * number, "floor": 0.0},
        }
        for number in range(1, 41)
    ]
    times = {"seconds": 2.0, "env_us": 4000.0, "policy_us": 500.0, "learning_us": 1400.0, "updates": 3}
    comparison = [
        {"transport": name, "equal": equal, "rewards": [0.1, 0.2, 0.3], "alone_us": alone, **times}
        for name, alone in (("grpc", 590.0), ("shm", 59.0), ("inproc", 6.0))
    ]
    return {
        "engine": "mujoco:quadruped-walk",
        "num_envs": 64,
        "updates": 40,
        "transport": "shm",
        "seed": 0,
        "command": "lucky-transport train",
        "measured_at": "2026-01-02 03:04 UTC",
        "env_steps": 81920,
        "horizon": 32,
        "seconds": 12.0,
        "still": 0.5,
        "evaluated": 1.0,
        "evaluated_steps": 500,
        "rows": rows,
        "comparison": comparison if compared else [],
        "equal": equal,
        "pictures": [np.full((6, 8, 3), 20 * number, np.uint8) for number in range(pictures)],
        "picture_steps": 3,
        "machine": {"processor": "2 <cores>"},
        "verdict": ["After 12 s the policy earns 2.00 times <that>.", "EQUAL: the first 3 updates are the same."],
    }


def test_the_page_is_one_file_without_scripts_or_addresses() -> None:
    page = training_page(made_up())
    assert "<script" not in page
    outside = set(re.findall(r"""(?:src|href|url)[=(]["']?(\w+:)""", page))
    assert outside == {"data:"}
    assert page.count('src="data:image/jpeg') == 8
    assert page.count('src="data:image/svg') == 4
    assert "2 &lt;cores&gt;" in page
    assert "times &lt;that&gt;" in page
    assert training_page(made_up()) == page


def test_it_says_whether_the_curves_are_equal() -> None:
    assert "✓ EQUAL" in training_page(made_up())
    other = made_up(equal=False) | {"verdict": ["It learnt.", "DIFFERENT: they are not the same."]}
    assert "✗ DIFFERENT" in training_page(other)


def test_without_comparison_and_pictures_there_is_still_a_page() -> None:
    result = made_up(compared=False, pictures=0) | {"verdict": ["It learnt."]}
    page = training_page(result)
    assert page.count('src="data:image/svg') == page.count("<img ") == 2
    assert "EQUAL" not in page


def test_the_numbers_lie_beside_the_page(tmp_path: Path) -> None:
    page = write_page(made_up(), tmp_path / "new")
    assert page.name == "training.html"
    assert {path.name for path in page.parent.iterdir()} == {"training.html", "training.json", "walking.jpg"}


def test_the_pictures_of_all_moments_are_one_image(tmp_path: Path) -> None:
    result = made_up(pictures=5)
    height, width = result["pictures"][0].shape[:2]
    with Image.open(write_page(result, tmp_path).with_name("walking.jpg")) as image:
        assert image.size == (960, round(960 * 2 * height / (4 * width)))  # two rows of four, the last three empty
    without = tmp_path / "without"
    write_page(made_up(pictures=0), without)
    assert not (without / "walking.jpg").exists()


def test_the_share_is_that_of_a_whole_training_step() -> None:
    assert share({"alone_us": 59.0, "env_us": 4000.0, "policy_us": 500.0, "learning_us": 1400.0}) == pytest.approx(0.01)


def test_the_charts_tell_their_numbers_in_words_and_the_table_the_shares() -> None:
    page = training_page(made_up())
    told = re.findall(r'src="data:image/svg[^"]*" alt="(.*?)"', page)
    assert "standing 0.50, evaluated 1.00" in told[0]
    assert "speed" in told[1]
    assert "they are equal" in told[2]
    assert "grpc: transport 0.59 ms, engine 3.41 ms, policy 0.50 ms, learning 1.40 ms" in told[3]
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert [cells[row * 7 : row * 7 + 3] for row in range(3)] == [
        ["grpc", "2.0", "10.0%"],
        ["shm", "2.0", "1.0%"],
        ["inproc", "2.0", "0.1%"],
    ]
