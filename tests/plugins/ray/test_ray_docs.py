"""The example of the page about Ray runs as it stands, and so does the program that measures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from tests.support.waiting import PATIENCE_S

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "ray.md"


def test_the_example_and_the_measurement_start_ray_and_leave_nothing_of_it(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text(f"{example}\nassert not ray.is_initialized()\n", encoding="utf-8")
    shown = _run(program)
    assert shown.startswith("(8, "), shown
    shown = _run("-m", "lucky_transport_ray.measure", "toy", "--num-envs=4", "--actors=2", "--runs=1", "--seconds=0.05")
    assert [line.split()[0] for line in shown.splitlines()[2:]] == ["inproc", "shm", "ray"]


def _run(*arguments: Any) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=8 * PATIENCE_S, cwd=PAGE.parents[2]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
