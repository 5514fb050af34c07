"""Every case over real gRPC and over ours, in this process: the same record, but for what is declared."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from lucky_transport.config import runtime_directories
from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until_none_left

from . import generated
from .comparing import differences, load_cases
from .declared import DIFFERENCES
from .registry import Case

CASES = load_cases()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Defects of handlers are what many cases are about; both implementations log each with its traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """All that the cases opened has gone once they have run: the sockets by which engines are met, and our threads."""
    before = _threads()
    yield
    until_none_left(lambda: [*_sockets(), *(_threads() - before)])


@pytest.fixture(scope="module", autouse=True)
def _grpcs_core_is_never_shut_down() -> Iterator[None]:
    """Something of gRPC is open throughout: 1.60 shuts its core down when the last such object goes, and then often
    waits 10 s for a thread of its own, with the interpreter's lock held: every deadline of the next case was past.
    """
    with grpc.insecure_channel("unix:nobody"):
        yield


def _threads() -> set[threading.Thread]:
    """Threads that have a name of their own; those of gRPC, of its core too, and of pools have none."""
    unnamed = ("Thread-", "ThreadPool", "asyncio_", "Dummy-")
    return {one for one in threading.enumerate() if not one.name.startswith(unnamed)}


def _sockets() -> list[Path]:
    folders = [Path(folder) for folder in runtime_directories()]
    return [path for folder in folders for path in folder.glob(f"lucky_{os.getpid()}_*")]


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings(  # of grpc.aio's own, up to 1.60 at least, after an interceptor has failed
    "ignore:Exception ignored in. <function InterceptedCall:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_does_what_grpc_does(case: Case) -> None:
    if case.name.startswith(("interop.", "aio_interop.")) and not generated.AVAILABLE:
        pytest.skip("no grpcio-tools to make the stubs with")
    declared = [name for one in DIFFERENCES if one.is_about(case) for name in one.fields]
    found = differences(case)
    undeclared = {field: pair for field, pair in found.items() if not set(declared) & set(field.split("."))}
    assert undeclared == {}, "(gRPC, ours)"
    stale = [name for name in declared if not any(name in field.split(".") for field in found)]
    assert stale == [], "declared as different, but the same"


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_every_declared_difference_is_of_a_case_that_exists() -> None:
    known = {name for case in CASES for name in (case.name, case.name.partition("[")[0])}
    assert {name for one in DIFFERENCES for name in one.cases} <= known
