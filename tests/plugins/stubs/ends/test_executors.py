"""A program's executor gets every handler through `submit`, unless it is a ThreadPoolExecutor as Python has it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, thread
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs

from ..differential.ends import generic_handler
from .conftest import OurEnds

#: More than it takes for a method to prove that it is quick.
CALLS = 40


class Noted:
    """Executors that note what is submitted to them, each in a way of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.submitted = 0
        self._monkeypatch = monkeypatch

    def noting(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(submit)
        def submit_noted(*arguments: Any, **named: Any) -> Any:
            self.submitted += 1
            return submit(*arguments, **named)

        return submit_noted

    def subclass(self) -> Executor:
        return type("SessionPool", (ThreadPoolExecutor,), {"submit": self.noting(ThreadPoolExecutor.submit)})(4)

    def subclass_that_changes_nothing(self) -> Executor:
        """Such as one whose threads set something up."""
        pool = type("OwnPool", (ThreadPoolExecutor,), {})(4)
        pool.submit = self.noting(pool.submit)
        return pool

    def replaced_in_the_object(self) -> Executor:
        pool = ThreadPoolExecutor(4)
        vars(pool)["submit"] = self.noting(pool.submit)
        return pool

    def replaced_in_the_class(self) -> Executor:
        """As instrumentation does it that carries context variables over."""
        self._monkeypatch.setattr(ThreadPoolExecutor, "submit", self.noting(ThreadPoolExecutor.submit))
        return ThreadPoolExecutor(4)

    def a_proxy_in_the_class(self) -> Executor:
        """As wrapt does it: what stands there passes for the function, also in its globals."""
        noted = self

        class Proxy:
            __globals__ = vars(thread)

            def __get__(self, pool: Any, kind: Any) -> Any:
                return self if pool is None else noted.noting(functools.partial(original, pool))

        original = ThreadPoolExecutor.submit
        self._monkeypatch.setattr(ThreadPoolExecutor, "submit", Proxy())
        return ThreadPoolExecutor(4)

    def threads_of_its_own(self) -> Executor:
        pool: Any = ThreadPoolExecutor(4)
        start = type(pool)._adjust_thread_count
        vars(pool)["_adjust_thread_count"] = lambda: start(pool)
        return _counting_tasks(self, pool)

    def another_worker(self) -> Executor:
        worker = vars(thread)["_worker"]
        self._monkeypatch.setattr(thread, "_worker", functools.wraps(worker)(lambda *given: worker(*given)))
        return _counting_tasks(self, ThreadPoolExecutor(4))

    def another_kind_of_thread(self) -> Executor:
        self._monkeypatch.setattr(threading, "Thread", type("Thread", (threading.Thread,), {"__module__": __name__}))
        return _counting_tasks(self, ThreadPoolExecutor(4))

    def no_thread_pool(self) -> Executor:
        pool = ThreadPoolExecutor(4)

        class Handing(Executor):
            submit = staticmethod(self.noting(pool.submit))

            def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
                pool.shutdown(wait, cancel_futures=cancel_futures)

        return Handing()


def _counting_tasks(noted: Noted, pool: Any) -> Executor:
    """Count what goes into the pool's queue, which `submit` alone does."""
    put = pool._work_queue.put

    class Queue:
        def put(self, item: Any) -> None:
            noted.submitted += item is not None
            put(item)

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

    queue, pool._work_queue = pool._work_queue, Queue()
    return pool


WAYS = [name for name in vars(Noted) if not name.startswith("_") and name != "noting"]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    return Noted(monkeypatch)


WHO = {"unary_unary Who": lambda request, context: threading.current_thread().name.encode()}


@pytest.mark.parametrize("way", WAYS)
def test_every_handler_is_submitted_to_a_pool_that_may_notice(ends: OurEnds, noted: Noted, way: str) -> None:
    with getattr(noted, way)() as pool:
        before = noted.submitted
        who = ends.over(pool, WHO).unary_unary("Who")
        names = {who(b"", timeout=PATIENCE_S) for _ in range(CALLS)}
        assert noted.submitted - before == CALLS
        assert not any(name.startswith(b"grpc server") for name in names)


def test_so_it_is_where_submit_is_replaced_after_the_server_was_made(ends: OurEnds, noted: Noted) -> None:
    with ThreadPoolExecutor(4) as pool:
        server = lucky_transport_stubs.server(pool, handlers=(generic_handler(WHO),))
        vars(pool)["submit"] = noted.noting(pool.submit)
        server.add_insecure_port(target := ends.address())
        server.start()
        who = ends.dial(target).unary_unary("Who")
        for _ in range(CALLS):
            who(b"", timeout=PATIENCE_S)
        server.stop(None).wait(PATIENCE_S)
        assert noted.submitted == CALLS


def test_a_plain_pool_leaves_quick_methods_to_the_thread_that_reads(ends: OurEnds) -> None:
    """The tests above would pass with every executor if this one did not."""
    with ThreadPoolExecutor(4) as pool:
        who = ends.over(pool, WHO).unary_unary("Who")
        until(lambda: who(b"", timeout=PATIENCE_S).startswith(b"grpc server"))
