"""What a context manager raises in place of an error does not hold the failed code: its descriptors go at once."""

from __future__ import annotations

import contextlib
import errno
import gc
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from lucky_transport.errors import TransportError
from lucky_transport.foreign_code import foreign_code
from lucky_transport.limits import within_limits


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """What a cycle holds stays."""
    gc.disable()
    yield
    gc.enable()


class Held:
    """What failed code has in hand."""


@pytest.mark.parametrize("manager", [within_limits("no start"), foreign_code("toy", "a step")])
def test_failed_code_keeps_nothing_once_its_error_is_handled(manager: AbstractContextManager[None]) -> None:
    held: list[weakref.ref[Held]] = []

    def fail() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        raise OSError(errno.EMFILE, "too many")

    with contextlib.suppress(TransportError), manager:
        fail()
    assert held[0]() is None
