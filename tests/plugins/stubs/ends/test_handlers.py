"""Which handler answers and where it runs: through `submit` of a program's executor, or on the thread that reads."""

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, thread
from typing import Any

import grpc
import pytest

import lucky_transport
import lucky_transport_stubs
from tests.support.waiting import PATIENCE_S, until

from ..differential.ends import generic_handler
from .conftest import OurEnds


def says(text: bytes) -> Any:
    return lambda request, context: text


def ask(client: Any, name: str = "Method", **options: Any) -> bytes:
    return client.unary_unary(name)(b"", timeout=PATIENCE_S, **options)


def refused(method: Any) -> tuple[str, str]:
    """Call what must fail, and return (the name of its code, its details)."""
    call = method(b"", timeout=PATIENCE_S) if "Stream" in type(method).__name__ else method.future(b"")
    return call.code().name, call.details()


class _Half:
    """What looks like a handler until it is used."""

    request_streaming = response_streaming = False
    unary_unary = staticmethod(lambda request, context: request)


NO_HANDLER = ("INTERNAL", "Found no grpc.RpcMethodHandler")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (object(), NO_HANDLER),
        ("no handler", NO_HANDLER),
        (_Half(), NO_HANDLER),
        (SystemExit(1), ("UNKNOWN", "Error in service handler!")),
    ],
    ids=["object", "text", "half", "exit"],
)
def test_an_interceptor_that_returns_no_handler_fails_that_call_alone(ends: OurEnds, found: Any, told: Any) -> None:
    class Misleading(grpc.ServerInterceptor):
        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            if "Misled" not in handler_call_details.method:
                return continuation(handler_call_details)
            if isinstance(found, SystemExit):
                raise found
            return found

    # as with gRPC's, a call may count for a moment after its answer has come
    methods = {"unary_unary Method": says(b"well")}
    client = ends.pair(methods, interceptors=[Misleading()], maximum_concurrent_rpcs=4)
    for _ in range(3):
        code, details = refused(client.unary_unary("Misled"))
        assert (code, told[1] in details) == (told[0], True)
        assert refused(client.unary_stream("Misled")) == (code, details)
        assert ask(client) == b"well"


def test_a_pool_that_takes_no_task_fails_that_call_and_keeps_no_slot(ends: OurEnds) -> None:
    class Full(Exception):
        """What a bounded pool of a program raises."""

    class Bounded(ThreadPoolExecutor):
        is_full = False

        def submit(self, *arguments: Any, **named: Any) -> Any:
            if self.is_full:
                raise Full("no room for another task")
            return super().submit(*arguments, **named)

    with Bounded(2) as pool:
        client = ends.over(pool, {"unary_unary Method": says(b"well")}, maximum_concurrent_rpcs=2)
        for _ in range(3):
            pool.is_full = True
            assert refused(client.unary_unary("Method")) == ("UNAVAILABLE", "no room for another task")
            pool.is_full = False
            assert ask(client) == b"well"


class Servicer:
    """Tells the name of the thread that runs it."""

    @lucky_transport.inline
    def inline(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    def pooled(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()


def test_an_inline_handler_runs_on_the_thread_that_reads_and_others_in_the_pool(ends: OurEnds) -> None:
    servicer = Servicer()
    served = ends.serve(
        {
            "unary_unary Inline": servicer.inline,
            "unary_unary Partial": functools.partial(servicer.inline),
            "unary_unary Pooled": servicer.pooled,
        }
    )
    client = ends.dial(served)
    assert ask(client, "Inline") == ask(client, "Partial") == f"grpc server {served.target}".encode()
    assert ask(client, "Pooled").startswith(b"ThreadPoolExecutor")


def test_an_inline_handler_that_breaks_costs_its_own_call_only(ends: OurEnds) -> None:
    @lucky_transport.inline
    def broken(request: bytes, context: Any) -> bytes:
        raise SystemExit("enough")

    client = ends.pair({"unary_unary Broken": broken, "unary_unary Inline": Servicer().inline})
    assert refused(client.unary_unary("Broken")) == ("UNKNOWN", "Exception calling application: enough")
    assert ask(client, "Inline")


def test_the_mark_is_for_unary_calls_only(ends: OurEnds) -> None:
    client = ends.pair({"unary_unary Inline": Servicer().inline})
    name = client.stream_unary("Inline")(iter([b""]), timeout=PATIENCE_S)
    assert name.startswith(b"ThreadPoolExecutor")


def test_a_method_is_not_called_for_a_call_that_was_cancelled_before(ends: OurEnds) -> None:
    entered, resume = ends.gate(), ends.gate()
    asked: list[bytes] = []

    def handler(request: bytes, context: Any) -> bytes:
        asked.append(request)
        entered.set()
        resume.wait()
        return request

    @lucky_transport_stubs.inline
    def ping(request: bytes, context: Any) -> bytes:
        return b""

    client = ends.pair({"unary_unary Method": handler, "unary_unary Ping": ping}, workers=1)
    first = client.unary_unary("Method").future(b"first", timeout=PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    second = client.unary_unary("Method").future(b"second", timeout=PATIENCE_S)
    third = client.unary_unary("Method").future(b"third", timeout=PATIENCE_S)
    second.cancel()
    client.unary_unary("Ping")(b"", timeout=PATIENCE_S)  # so the server has read the cancel before it
    resume.set()
    assert (first.result(PATIENCE_S), third.result(PATIENCE_S)) == (b"first", b"third")
    assert asked == [b"first", b"third"]


def test_a_thread_that_still_reads_requests_is_released_by_the_answer(ends: OurEnds) -> None:
    never = ends.gate()
    seen: list[Any] = []

    def handler(requests: Iterator[bytes], context: Any) -> bytes:
        reading = threading.Thread(target=lambda: seen.append(list(requests)))
        reading.start()
        until(lambda: reading.is_alive())
        return b"enough"

    def requests() -> Iterator[bytes]:
        yield b"first"
        never.wait()

    client = ends.pair({"stream_unary Method": handler})
    call = client.stream_unary("Method").future(requests(), timeout=PATIENCE_S)
    assert call.result(PATIENCE_S) == b"enough"
    until(lambda: seen)


def test_a_pool_that_was_shut_down_makes_the_server_unavailable(ends: OurEnds) -> None:
    pool = ThreadPoolExecutor(2)
    client = ends.over(pool, {"unary_unary Method": says(b"well")})
    pool.shutdown()
    assert refused(client.unary_unary("Method"))[0] == "UNAVAILABLE"


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
