"""Which handler answers: generic and registered ones, interceptors, and the marks on handlers."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport
import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


def says(text: bytes) -> Any:
    return grpc.unary_unary_rpc_method_handler(lambda request, context: text)


def ask(client: Any, name: str = "Method", **options: Any) -> bytes:
    return client.unary_unary(name)(b"", timeout=PATIENCE_S, **options)


class _Half:
    """What looks like a handler until it is used."""

    request_streaming = response_streaming = False
    unary_unary = staticmethod(lambda request, context: request)


@pytest.mark.parametrize("found", [object(), "no handler", _Half()], ids=["object", "text", "half"])
def test_an_interceptor_that_returns_no_handler_fails_that_call_alone(
    serve: Any, dial: Any, refused: Any, found: Any
) -> None:
    class Misleading(grpc.ServerInterceptor):
        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            return found if "Misled" in handler_call_details.method else continuation(handler_call_details)

    # as with gRPC's, a call may count for a moment after its answer has come
    served = serve({"unary_unary Method": says(b"well")}, interceptors=[Misleading()], maximum_concurrent_rpcs=4)
    client = dial(served)
    for _ in range(3):
        code, details = refused(client.unary_unary("Misled"), b"")
        assert (code, "Found no grpc.RpcMethodHandler" in details) == ("INTERNAL", True)
        assert refused(client.unary_stream("Misled"), b"") == (code, details)
        assert ask(client) == b"well"


def test_an_interceptor_that_exits_fails_that_call_alone(serve: Any, dial: Any, refused: Any) -> None:
    class Exiting(grpc.ServerInterceptor):
        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            if "Exit" in handler_call_details.method:
                raise SystemExit(1)
            return continuation(handler_call_details)

    client = dial(serve({"unary_unary Method": says(b"well")}, interceptors=[Exiting()]))
    assert refused(client.unary_unary("Exit"), b"") == ("UNKNOWN", "Error in service handler!")
    assert ask(client) == b"well"


def test_a_pool_that_takes_no_task_fails_that_call_and_keeps_no_slot(
    make_server: Any, address: Any, dial: Any, refused: Any, handlers_of: Any
) -> None:
    class Full(Exception):
        """What a bounded pool of a program raises."""

    class Bounded(ThreadPoolExecutor):
        is_full = False

        def submit(self, *arguments: Any, **named: Any) -> Any:
            if self.is_full:
                raise Full("no room for another task")
            return super().submit(*arguments, **named)

    with Bounded(2) as pool:
        server, target = lucky_transport_stubs.server(pool, maximum_concurrent_rpcs=2), address()
        server.add_generic_rpc_handlers((handlers_of({"unary_unary Method": says(b"well")}),))
        server.add_insecure_port(target)
        server.start()
        client = dial(target)
        for is_full in (True, False) * 3:
            pool.is_full = is_full
            if is_full:
                assert refused(client.unary_unary("Method"), b"") == ("UNAVAILABLE", "no room for another task")
            else:
                assert ask(client) == b"well"
        server.stop(None).wait(PATIENCE_S)


class Servicer:
    """Tells the name of the thread that runs it."""

    @lucky_transport.inline
    def inline(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    def pooled(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()


def test_an_inline_handler_runs_on_the_thread_that_reads_and_others_in_the_pool(serve: Any, dial: Any) -> None:
    servicer = Servicer()
    served = serve(
        {
            "unary_unary Inline": servicer.inline,
            "unary_unary Partial": functools.partial(servicer.inline),
            "unary_unary Pooled": servicer.pooled,
        }
    )
    client = dial(served)
    assert ask(client, "Inline") == ask(client, "Partial") == f"grpc server {served.target}".encode()
    assert ask(client, "Pooled").startswith(b"ThreadPoolExecutor")


def test_an_inline_handler_that_breaks_costs_its_own_call_only(serve: Any, dial: Any, refused: Any) -> None:
    @lucky_transport.inline
    def broken(request: bytes, context: Any) -> bytes:
        raise SystemExit("enough")

    client = dial(serve({"unary_unary Broken": broken, "unary_unary Inline": Servicer().inline}))
    assert refused(client.unary_unary("Broken"), b"") == ("UNKNOWN", "Exception calling application: enough")
    assert ask(client, "Inline")


def test_the_mark_is_for_unary_calls_only(serve: Any, dial: Any) -> None:
    client = dial(serve({"unary_unary Inline": Servicer().inline}))
    name = client.stream_unary("Inline")(iter([b""]), timeout=PATIENCE_S)
    assert name.startswith(b"ThreadPoolExecutor")
