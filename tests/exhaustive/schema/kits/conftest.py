"""The example engines of the kits, compiled once a session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from tests.support.build_once import shared_folder
from tests.support.kit_engine import KitEngine, compile_c, compile_cpp, compile_csharp
from tests.support.waiting import until_none_left


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


@pytest.fixture(scope="module")
def engine(pendulum: list[str], request: pytest.FixtureRequest) -> Iterator[KitEngine]:
    """One engine for the tests of a file that leave it whole; ENGINE of the file: its arguments."""
    one = KitEngine(pendulum, unique_name(), *request.module.ENGINE)
    yield one
    one.close()
    until_none_left(lambda: list(Path("/dev/shm").glob(f"{one.name}*")))
    assert one.process.returncode == os.EX_OK
