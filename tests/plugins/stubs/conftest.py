"""What tests of threads and of asyncio share."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.forked_programs import SWITCHED, Programs


@pytest.fixture(scope="session")
def forks() -> Iterator[Programs]:
    """Starts programs as forks of a Python that has imported grpc and what switches it."""
    with Programs(*SWITCHED, PYTHONUNBUFFERED="1", GRPC_VERBOSITY="NONE") as programs:
        yield programs


@pytest.fixture
def ends() -> Iterator[Any]:
    """Servers and channels over shared memory, the `Ends` of the differential."""
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    from .differential.ends import OURS, Ends

    with Ends(OURS) as opened:
        yield opened


@pytest.fixture
def aio() -> Any:
    """The same of asyncio."""
    from .differential.aio_ends import AioEnds
    from .differential.ends import OURS

    return AioEnds(OURS)


@pytest.fixture(params=["threads", "asyncio"])
def driver(request: pytest.FixtureRequest, ends: Any) -> Any:
    """Callers of threads, or of asyncio, behind one face: a `Driver` of the differential."""
    from .differential.both import ASYNCIO, OverThreads

    return request.getfixturevalue("aio") if request.param == ASYNCIO else OverThreads(ends)
