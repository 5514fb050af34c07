"""The README tells users of every intended difference, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the cases are about grpc")

from .declared import table

README = Path(__file__).parents[4] / "plugins" / "lucky_transport_stubs" / "README.md"


def test_the_readme_shows_the_table_of_intended_differences() -> None:
    _, _, after = README.read_text(encoding="utf-8").partition("<!-- intended differences -->\n")
    shown = [line for line in after.partition("\n\n##")[0].splitlines() if line.startswith("| `")]
    assert shown == table()
