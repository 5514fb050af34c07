"""The suite itself: it sees a difference where there is one, and what differs is named by its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the cases are about grpc")

from . import comparing
from .comparing import differences
from .declared import Difference
from .ends import OURS, Ends
from .registry import Case


def _case(function: Callable[..., Any]) -> Case:
    return Case("module.function[parameter]", function, {})


def _recording(monkeypatch: pytest.MonkeyPatch, ours: Any, *theirs: Any) -> Iterator[Any]:
    """Have cases give these records; return what is left of them."""
    left = iter(theirs)
    monkeypatch.setattr(comparing, "record", lambda case, side: ours if side is OURS else next(left))
    return left


def test_a_difference_has_the_path_of_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    _recording(monkeypatch, {"a": {"b": 1, "c": 3, "d": 4}}, *[{"a": {"b": 1, "c": 2}}] * 3)
    assert differences(_case(lambda ends: {})) == {"a.c": (2, 3), "a.d": ("(absent)", 4)}


def test_grpc_may_be_of_two_minds(monkeypatch: pytest.MonkeyPatch) -> None:
    left = _recording(monkeypatch, {"a": 1}, {"a": 2}, {"a": 1}, {"a": 3})
    assert differences(_case(lambda ends: {})) == {}
    assert list(left) == [{"a": 3}]


def test_what_grpc_never_does_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _recording(monkeypatch, {"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 1})
    assert differences(_case(lambda ends: {})) == {"a": (4, 1)}


def test_a_declared_difference_is_of_all_parameters_or_of_one() -> None:
    def is_about(name: str) -> bool:
        return Difference((name,), (), "", "", "").is_about(_case(lambda ends: {}))

    assert is_about("module.function")
    assert is_about("module.function[parameter]")
    assert not is_about("module.function[other]")


def test_what_a_case_started_has_ended_with_it() -> None:
    with Ends(OURS) as ends:
        gate = ends.gate()
        future = ends.unary_unary(lambda request, context: gate.wait(5) and request).future(b"request")
    assert gate.is_set()
    assert future.done()
