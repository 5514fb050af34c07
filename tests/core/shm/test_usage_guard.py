"""What several threads use is let go by the last of them, once."""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, SupportsIndex

import pytest

from lucky_transport.errors import ClosedError
from lucky_transport.shm.usage_guard import UsageGuard


def test_the_last_one_out_lets_go_and_an_empty_gate_at_once() -> None:
    for users in (2, 0):
        guard, gone = UsageGuard("the thing"), list[str]()
        with ExitStack() as inside:
            for _ in range(users):
                inside.enter_context(guard)
            assert guard.close(lambda gone=gone: gone.append("let go"))
            assert not guard.close(lambda gone=gone: gone.append("again"))
            assert gone == ["let go"] * (not users)
        assert gone == ["let go"]
        with pytest.raises(ClosedError, match="the thing is closed; connect again"), guard:
            pass


class _Interrupted(list[None]):
    """A list during whose methods Ctrl-C is pressed: its handler runs when the method is done."""

    def append(self, item: None) -> None:
        super().append(item)
        raise KeyboardInterrupt

    def pop(self, index: SupportsIndex = -1) -> None:
        super().pop(index)
        raise KeyboardInterrupt


def test_ctrl_c_on_the_way_in_leaves_nobody_inside() -> None:
    guard: Any = UsageGuard("the thing")
    gone: list[str] = []
    guard._uses = _Interrupted()
    with pytest.raises(KeyboardInterrupt), guard:
        pytest.fail("it was interrupted before")
    guard.close(lambda: gone.append("let go"))
    assert gone == ["let go"]


def test_ctrl_c_on_the_way_out_does_not_keep_what_was_closed_meanwhile() -> None:
    guard: Any = UsageGuard("the thing")
    gone: list[str] = []
    guard.__enter__()
    guard.close(lambda: gone.append("let go"))
    guard._uses = _Interrupted(guard._uses)
    with pytest.raises(KeyboardInterrupt):
        guard.__exit__(None, None, None)
    assert gone == ["let go"]


@pytest.fixture
def _frequent_switches() -> Iterator[None]:
    """Let threads take turns so often that a test meets every order of them soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_frequent_switches")
def test_nobody_is_inside_when_it_lets_go_and_it_does_so_once_whenever_it_is_closed() -> None:
    for _ in range(200):
        guard, inside, seen = UsageGuard("the thing"), list[int](), list[int]()

        def use(guard: UsageGuard = guard, inside: list[int] = inside) -> None:
            while True:
                try:
                    with guard:
                        inside.append(1)
                        inside.pop()
                except ClosedError:
                    return

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        guard.close(lambda inside=inside, seen=seen: seen.append(len(inside)))
        for thread in threads:
            thread.join(10)
        assert seen == [0]


def test_in_a_forked_child_it_is_the_parents_unless_it_was_closed_before() -> None:
    guard, closed = UsageGuard("the thing"), UsageGuard("the thing")
    with guard:
        assert guard.close_after_fork()
    assert not guard.close_after_fork()
    assert "the thing belongs to the parent process; connect again after fork()" in str(guard.error())
    closed.close(lambda: None)
    assert not closed.close_after_fork()
    assert "the thing is closed" in str(closed.error())
