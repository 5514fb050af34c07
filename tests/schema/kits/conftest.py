"""The example engines of the kits, compiled once a session."""

from __future__ import annotations

import pytest

from tests.support.kit_engine import compile_csharp


@pytest.fixture(scope="session")
def csharp_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C# kit's example, compiled as its README says; skips without mono."""
    return compile_csharp(tmp_path_factory.mktemp("csharp") / "pendulum.exe", ["examples/pendulum/*.cs"])
