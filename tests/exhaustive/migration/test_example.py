"""The worked example says what it needs before it makes anything; CI walks it whole."""

import importlib.util
from pathlib import Path

from tests.support.command import python

WALK = Path(__file__).parents[3] / "migration" / "example" / "walk.py"

#: Runs the example where luckyrobots and tomlkit cannot be found.
WITHOUT = """
import importlib.util, runpy, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("luckyrobots", "tomlkit") else found(name, *rest)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_what_is_missing_is_said_before_anything_is_made(tmp_path: Path) -> None:
    done = python("-c", WITHOUT, str(WALK), cwd=tmp_path, env={"TMPDIR": str(tmp_path), "PATH": ""})
    assert done.returncode == 1
    words = done.stderr.strip()
    assert words.startswith("walk.py needs luckyrobots"), words
    assert "pip install 'luckyrobots==0.5.0'" in words
    assert "tomlkit" in words
    assert "'lucky-transport[migration]'" in words
    assert list(tmp_path.iterdir()) == []


def test_every_package_that_the_project_imports_is_asked_for() -> None:
    spec = importlib.util.spec_from_file_location("walk", WALK)
    assert spec is not None
    assert spec.loader is not None
    walk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(walk)
    requirements = (WALK.parent / "project" / "requirements.txt").read_text().splitlines()
    assert walk.NEEDED["luckyrobots"] in requirements
