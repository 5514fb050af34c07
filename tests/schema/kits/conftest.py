"""The example engines of the kits, compiled once a session."""

from __future__ import annotations

import pytest

from tests.support.kit_engine import compile_c, compile_cpp, compile_csharp


@pytest.fixture(scope="session")
def csharp_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C# kit's example, compiled as its README says; skips without mono."""
    return compile_csharp(tmp_path_factory.mktemp("csharp") / "pendulum.exe", ["examples/pendulum/*.cs"])


@pytest.fixture(scope="session")
def c_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C kit's example; skips without a compiler."""
    return compile_c(tmp_path_factory.mktemp("c") / "pendulum", "examples/pendulum.c")


@pytest.fixture(scope="session")
def cpp_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C++ kit's example; skips without a compiler."""
    return compile_cpp(tmp_path_factory.mktemp("cpp") / "pendulum", "examples/pendulum.cpp")


@pytest.fixture(scope="session", params=["csharp", "c", "cpp"])
def pendulum(request: pytest.FixtureRequest) -> list[str]:
    """The command of each kit's example."""
    command: list[str] = request.getfixturevalue(f"{request.param}_pendulum")
    return command
