"""The kits' conformance vectors are what the Python implementation writes, reads and refuses now."""

from __future__ import annotations

from generators.vectors import files
from tests.support.kit_engine import KITS


def test_the_committed_vectors_are_those_of_the_python_implementation() -> None:
    committed = {path.name: path.read_text() for path in (KITS / "vectors").glob("*.json")}
    assert files.render() == committed
