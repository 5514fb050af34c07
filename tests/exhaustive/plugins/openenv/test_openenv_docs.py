"""The examples of the page about OpenEnv run as they stand, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "openenv.md"

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("{'result': ")
    assert printed[1:3] == ["1.0", "5"]
    assert "scene_get_info" in printed[3] or "act" in printed[3]
