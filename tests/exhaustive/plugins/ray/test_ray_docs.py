"""The example of the page about Ray runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from tests.support.waiting import PATIENCE_S

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "ray.md"


def test_the_example_starts_ray_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    # Where it hangs, it says in which call.
    prelude = f"import faulthandler\nfaulthandler.dump_traceback_later({3 * PATIENCE_S}, exit=True)\n"
    program.write_text(f"{prelude}{example}\nassert not ray.is_initialized()\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=4 * PATIENCE_S, cwd=PAGE.parents[2]
    )
    if "no Ray cluster at this host" in done.stderr:  # Ray gives its processes 30 s, which a loaded machine exceeds
        pytest.skip(f"Ray did not start here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(8, "), done.stdout
