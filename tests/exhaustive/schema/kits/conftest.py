"""The example engines of the kits, compiled once a session."""

from __future__ import annotations

import pytest

from tests.support.build_once import shared_folder
from tests.support.kit_engine import compile_c, compile_cpp, compile_csharp


@pytest.fixture(scope="session")
def csharp_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C# kit's example, compiled as its README says; skips without mono."""
    return compile_csharp(shared_folder(tmp_path_factory) / "pendulum-csharp.exe", ["examples/pendulum/*.cs"])


@pytest.fixture(scope="session")
def c_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C kit's example; skips without a compiler."""
    return compile_c(shared_folder(tmp_path_factory) / "pendulum-c", "examples/pendulum.c")


@pytest.fixture(scope="session")
def cpp_pendulum(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the C++ kit's example; skips without a compiler."""
    return compile_cpp(shared_folder(tmp_path_factory) / "pendulum-cpp", "examples/pendulum.cpp")


@pytest.fixture(scope="session", params=["csharp", "c", "cpp"])
def pendulum(request: pytest.FixtureRequest) -> list[str]:
    """The command of each kit's example."""
    command: list[str] = request.getfixturevalue(f"{request.param}_pendulum")
    return command
