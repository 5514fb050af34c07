"""A project's folder with a file of stages."""

from collections.abc import Callable
from pathlib import Path

import pytest

#: Writes the file of stages and returns its path.
Write = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(project: Path) -> Write:
    """Return a function that writes lucky_transport.toml there."""

    def write_file(text: str) -> Path:
        path = project / "lucky_transport.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
