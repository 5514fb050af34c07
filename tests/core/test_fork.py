"""What is registered runs around a fork, as long as its object lives."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import pytest

from lucky_transport.fork import around_fork, on_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Noting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def before(self) -> None:
        self.seen.append("before")

    def in_parent(self) -> None:
        self.seen.append("parent")

    def in_child(self) -> None:
        self.seen.append("child")

    def fail(self) -> None:
        raise RuntimeError("broken")


def in_a_child(code: Callable[[], bool]) -> bool:
    """True when `code()` is, in a forked child."""
    pid = os.fork()
    if not pid:
        answer = 2
        try:
            answer = 0 if code() else 1
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_child_and_its_children_make_the_call_and_the_parent_does_not() -> None:
    noting = Noting()
    on_child(noting.in_child)
    assert in_a_child(lambda: noting.seen == ["child"] and in_a_child(lambda: noting.seen == ["child", "child"]))
    assert noting.seen == []


def test_both_processes_know_what_happened_before() -> None:
    noting = Noting()
    around_fork(noting.before, noting.in_parent, noting.in_child)
    assert in_a_child(lambda: noting.seen == ["before", "child"])
    assert noting.seen == ["before", "parent"]


def test_an_object_is_not_kept_alive() -> None:
    noting = Noting()
    seen = noting.seen
    on_child(noting.in_child)
    references = sys.getrefcount(noting)
    on_child(noting.in_child)
    assert sys.getrefcount(noting) == references
    del noting
    gc.collect()
    assert in_a_child(lambda: seen == [])


def test_one_call_that_fails_keeps_no_other_from_being_made() -> None:
    broken, noting = Noting(), Noting()
    on_child(broken.fail)
    on_child(noting.in_child)
    assert in_a_child(lambda: noting.seen == ["child"])
