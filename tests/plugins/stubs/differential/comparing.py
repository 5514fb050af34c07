"""Running a case over both implementations, and what then differs.

A difference has a place: the case, and the path of the field in its record. Ours has one try. Real gRPC has three,
because it is not always of one mind: a graceful stop, for one, cuts off one last response in a hundred.
"""

import asyncio
import importlib.util
import inspect
import logging
import pkgutil
from typing import Any

import pytest

from . import cases
from .aio_ends import AioEnds, run
from .both import ASYNCIO, OverThreads
from .declared import DIFFERENCES
from .ends import OURS, REAL, Ends, Implementation
from .records import Record, without
from .registry import CASES, Case

ABSENT = "(absent)"

_TRIES = 3

#: Longer than any case needs, so that a case that hangs fails by its name.
_LIMIT_S = 30.0


def load_cases() -> list[Case]:
    """Import every module of cases; return all cases, each once."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return CASES


class _Logged(logging.Handler):
    """As a context; keeps what gRPC logs, or ours under gRPC's names: threads have no order."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._logger = logging.getLogger("grpc")

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.name} {record.levelname} {record.getMessage()}")

    def __enter__(self) -> list[str]:
        self._logger.addHandler(self)
        return self._lines

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


def record(case: Case, implementation: Implementation) -> Record:
    """Run a case over both ends of an implementation; `logged` is what they log under gRPC's names."""
    with _Logged() as logged:
        found = _record(case, implementation)
    return {**found, "logged": sorted(logged)}


def _record(case: Case, implementation: Implementation) -> Record:
    if case.driver == ASYNCIO or (not case.driver and inspect.iscoroutinefunction(case.function)):
        return asyncio.run(_record_aio(case, implementation))
    with Ends(implementation) as ends:
        found = run(case.run(OverThreads(ends))) if case.driver else case.run(ends)
        return without(found, ends.addresses)


async def _record_aio(case: Case, implementation: Implementation) -> Record:
    async with asyncio.timeout(_LIMIT_S), AioEnds(implementation) as ends:
        return without(await case.run(ends), ends.addresses)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a record by their paths, such as `result.raised.code`."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    leaves: dict[str, Any] = {}
    for key, inner in value.items():
        leaves |= flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    return leaves


def differences(case: Case, one: Implementation = OURS, other: Implementation = REAL) -> dict[str, tuple[Any, Any]]:
    """Return what real gRPC, or another, and ours, or one, record, for every field in which they differ."""
    ours = flatten(record(case, one))
    found: dict[str, tuple[Any, Any]] = {}
    for _ in range(_TRIES):
        found = compared(flatten(record(case, other)), ours)
        if not found:
            break
    return found


def compared(theirs: Record, ours: Record) -> dict[str, tuple[Any, Any]]:
    """Return the fields of two flat records that differ, each with both values."""
    pairs = {field: (theirs.get(field, ABSENT), ours.get(field, ABSENT)) for field in {**theirs, **ours}}
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}


def judge(case: Case) -> None:
    """Fail where a record differs that is not declared to, and where one is declared as different that is the same."""
    skip_without_generated_stubs(case)
    declared = [name for one in DIFFERENCES if one.is_about(case) for name in one.fields]
    found = differences(case)
    undeclared = {field: pair for field, pair in found.items() if not set(declared) & set(field.split("."))}
    stale = [name for name in declared if not any(name in field.split(".") for field in found)]
    assert undeclared == {}, f"(gRPC, ours): {undeclared}"
    assert stale == [], f"declared as different, but the same: {stale}"


def skip_without_generated_stubs(case: Case) -> None:
    """Skip a case whose stubs cannot be made here."""
    if "generated." in case.name and importlib.util.find_spec("grpc_tools") is None:
        pytest.skip("no grpcio-tools to make the stubs with")
