"""What all tests share: contract suites that show values, and a clean slate of settings."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import signal
import tempfile
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before anything imports grpc: tests fork, and its core crashes forked children now and then while it handles forks.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# A mono that is ended by a signal would leave a file in its working directory.
os.environ.setdefault("MONO_CRASH_NOFILE", "1")
# Hundreds of tests start engines: a fifth of such a start is compiling modules, where bytecode may not be kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell's background has SIGINT ignored, and nohup SIGHUP, which all children would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest
from hypothesis import HealthCheck, settings

from tests.support.assertion_cache import rewrite_share
from tests.support.quick_rule import is_exhaustive, quick_only
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.foreign_files import MakeForeignFile
    from tests.support.forked_programs import Programs
    from tests.support.weather import WeatherPrograms

# A slow machine is no bug: Hypothesis' limit of 200 ms per example would be an assertion about time, and so would its
# complaint about how long it takes to draw one. By default the examples are the same in each run; `.ci/run` draws them
# at random too. What is said is said of every profile: with CI=true Hypothesis has a default of its own.
_PATIENT = settings(
    deadline=None, database=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", _PATIENT)
settings.register_profile("random", _PATIENT, derandomize=False, max_examples=100)
settings.register_profile("deep", _PATIENT, derandomize=False, max_examples=2000)
settings.load_profile("quick")

#: Files that take longest begin before the others, so that all workers end together.
_LONGEST = ("test_grpc_contract.py", "test_shm_contract.py", "test_differential.py", "test_aio_differential.py")

pytest.register_assert_rewrite("lucky_transport.testing")
pytest_plugins = ["lucky_transport.testing.needs"]


def pytest_configure(config: pytest.Config) -> None:
    """Run files in their order: pytest-xdist runs those with few tests last, and here these are the longest."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
        # without an end it waits for ever for the rest of the file of a worker that crashed
        config.option.maxworkerrestart = config.option.maxworkerrestart or "0"
    rewrite_share(config)
    gc.disable()  # until the tests are collected: it would look through them again and again, a fifth of that time


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Have `-m exhaustive` look into no quick file that has no row for it."""
    is_module = config.option.markexpr == "exhaustive" and collection_path.suffix == ".py"
    return (is_module and not _says_exhaustive(collection_path)) or None


@cache
def _says_exhaustive(path: Path) -> bool:
    return b"exhaustive" in bytes(path) + path.read_bytes()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have `-m exhaustive tests` choose the folder and the marked rows; begin with the files that take longest."""
    exhaustive = list(filter(is_exhaustive, items))
    if unseen := sorted({str(item.path) for item in exhaustive if not _says_exhaustive(item.path)}):
        raise pytest.UsageError(f"a mark from elsewhere makes rows exhaustive; say so in their own file: {unseen}")
    if config.option.markexpr == "exhaustive":
        for item in exhaustive:
            item.add_marker("exhaustive")
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    """Keep the collected tests out of the garbage collector's way: many tests ask it to collect, for descriptors."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on a loop of its own, with what its asynchronous context managers hand out there."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
            arguments: dict[str, Any] = {}
            for name in inspect.signature(pyfuncitem.obj).parameters:
                value = pyfuncitem.funcargs[name]
                is_entered = isinstance(value, AbstractAsyncContextManager)
                arguments[name] = await stack.enter_async_context(value) if is_entered else value
            await pyfuncitem.obj(**arguments)

    asyncio.run(run())
    return True


@pytest.fixture(scope="module", autouse=True)
def _garbage_of_other_files() -> None:
    """Keep what the tests before this file have imported and cached out of its way, too."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _quick_tests_are_quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """A quick file starts one interpreter at most, and compiles nothing."""
    with quick_only(request.node):
        yield


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own LUCKY_* variables must not decide what a test sees."""
    for name in [name for name in os.environ if name.startswith("LUCKY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def make_foreign_file() -> MakeForeignFile:
    """Make files as another user; skips where this process cannot become one."""
    from tests.support import foreign_files

    if why_not := foreign_files.why_not():
        pytest.skip(why_not)

    def make_as_another_user(path: Path, kind: str, content: bytes = b"") -> int:
        return foreign_files.make_as(foreign_files.foreign_uid(), path, kind, content)

    return make_as_another_user


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which every user may make files, as /tmp and /dev/shm are."""
    directory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="lucky-test-"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def served_programs() -> Iterator[Programs]:
    """Programs as forks of a Python that has imported what `lucky-transport serve` imports."""
    from tests.support.forked_programs import SERVED, Programs

    with Programs(*SERVED) as programs:
        yield programs


@pytest.fixture(scope="module")
def forked_engines(served_programs: Programs) -> Iterator[None]:
    """Have the engines that tests of a file start be such programs: a start costs a tenth."""
    from tests.support import forked_programs

    with forked_programs.forked_engines(served_programs):
        yield


@pytest.fixture(scope="session")
def weather(tmp_path_factory: pytest.TempPathFactory) -> WeatherPrograms:
    """The programs of a team that has a service of its own."""
    from tests.support.weather import build

    return build(tmp_path_factory)
