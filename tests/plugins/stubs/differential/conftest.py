"""What holds while cases run over real gRPC and over ours."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.config import runtime_directories
from tests.support.resources import STUB_THREADS, threads_of
from tests.support.waiting import until_none_left


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Defects of handlers are what many cases are about; both implementations log each with its traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """All that the cases opened has gone once they have run: the sockets by which engines are met, and our threads."""
    before = set(threads_of(*STUB_THREADS))
    yield
    until_none_left(lambda: [*sockets(), *(set(threads_of(*STUB_THREADS)) - before)])


@pytest.fixture(scope="module", autouse=True)
def grpcs_core_is_never_shut_down() -> Iterator[None]:
    """Something of gRPC is open throughout: 1.60 shuts its core down when the last such object goes, and then often
    waits 10 s for a thread of its own, with the interpreter's lock held: every deadline of the next case was past.
    """
    import grpc

    with grpc.insecure_channel("unix:nobody"):
        yield


def sockets() -> list[Path]:
    """Return the files by which engines of this process are met."""
    folders = [Path(folder) for folder in runtime_directories()]
    return [path for folder in folders for path in folder.glob(f"lucky_{os.getpid()}_*")]
