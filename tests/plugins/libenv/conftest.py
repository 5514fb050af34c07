"""The sample library, compiled by the system's compiler; without one these tests skip."""

import shutil
import subprocess
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Buffers
from tests.support.waiting import PATIENCE_S

HERE = Path(__file__).parent
EXPORT = HERE.parents[2] / "plugins" / "lucky_transport_libenv" / "export"

Compile = Callable[..., Path]


def made(library: str, num_envs: int = 1, **options: Any) -> Any:
    """Return an engine of a library; `libenv` says how it is driven, the other options go to it."""
    if "seed" in options:
        options.setdefault("libenv", {"seed_option": "seed"})
    return api.make_engine(f"libenv:{library}", num_envs, **options)


@contextmanager
def bound(engine: Any) -> Generator[tuple[Any, Buffers]]:
    """Yield an engine and buffers of its own, in which it steps; it is closed then."""
    with closing(engine):
        buffers = Buffers.allocate(engine.spec)
        engine.bind(buffers)
        yield engine, buffers


@pytest.fixture(scope="session")
def compiler() -> str:
    """The system's C compiler."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler; apt install gcc libc6-dev")
    return found


@pytest.fixture(scope="session")
def compile_sample(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles sample.c, or another source, with any flags, into a library of its own."""

    def compile_it(name: str, *flags: str, source: Path = HERE / "sample.c") -> Path:
        target = tmp_path_factory.mktemp(name) / f"lib{name}.so"
        command = [compiler, "-O1", "-Wall", "-shared", "-fPIC", *flags, "-o", str(target), str(source), "-lm"]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        return target

    return compile_it


@pytest.fixture(scope="session")
def sample(compile_sample: Compile) -> str:
    """The path of the sample library."""
    return str(compile_sample("sample"))
