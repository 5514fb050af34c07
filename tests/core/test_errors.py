"""Errors: one root, fitting builtins, and a text that survives the wire."""

import contextlib
import errno
import gc
import re
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import errors
from lucky_transport.errors import NotReachable, TransportError, from_wire
from lucky_transport.foreign_code import foreign_code
from lucky_transport.limits import within_limits

CLASSES = [TransportError, *TransportError.__subclasses__()]


def test_every_error_derives_from_the_root_and_from_the_builtin_that_the_tree_names() -> None:
    tree = dict(re.findall(r"[├└]── (\w+) \((\w+)\)", errors.__doc__ or ""))
    assert set(tree) == {cls.__name__ for cls in CLASSES} - {"TransportError"}
    for cls in CLASSES:
        assert issubclass(cls, TransportError)
        builtin = tree.get(cls.__name__, "Exception")
        assert builtin in {base.__name__ for base in cls.__mro__}, cls


def test_the_text_ends_with_the_remedy_and_the_hint_repeats_it() -> None:
    error = NotReachable("no engine at shm://x", backend="shm", hint="start one")
    assert str(error) == "no engine at shm://x; start one"
    assert (error.backend, error.hint) == ("shm", "start one")


@pytest.mark.parametrize("cls", CLASSES)
@given(text=st.text())
def test_an_error_comes_back_from_the_wire_with_its_class_and_text(cls: type[TransportError], text: str) -> None:
    error = from_wire(cls.wire_code, text, backend="grpc")
    assert type(error) is cls
    assert str(error) == text
    assert error.backend == "grpc"


@given(code=st.integers().filter(lambda code: code not in {cls.wire_code for cls in CLASSES}))
def test_a_newer_peers_error_is_never_lost(code: int) -> None:
    assert type(from_wire(code, "from the future")) is TransportError


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
