"""Code bases made of texts, and what a scan of them finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

pytest.importorskip("libcst", reason="the extra `migration` is not installed")

Tree = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Write files, by their names in a new folder; return the folder."""

    def write(files: Mapping[str, str | bytes]) -> Path:
        root = tmp_path / "code"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        root.mkdir(exist_ok=True)
        return root

    return write
