"""What tests of shared memory share: names of segments, of which nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from tests.support.waiting import until_none_left


@pytest.fixture
def name() -> Iterator[str]:
    """A segment name of this test's own; nothing of it may be left afterwards."""
    one = unique_name()
    yield one
    until_none_left(lambda: list(Path("/dev/shm").glob(f"{one}*")))
