"""A program whose channels have interceptors keeps its answers when its calls are staged."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.routing import Decision  # noqa: E402 - after the check for grpc

ECHO, COUNT, SUM, CHAT = "/t.Test/Echo", "/t.Test/Count", "/t.Test/Sum", "/t.Test/Chat"


class _Lazy(grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns a generator for a stream, as OpenTelemetry does."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        yield from continuation(client_call_details, request)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        yield from continuation(client_call_details, request_iterator)


class _Eager(grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns an iterator around a call that is under way."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request_iterator))


class _Failing(grpc.UnaryUnaryClientInterceptor):
    """Raises an error of gRPC's class that has neither code nor metadata."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        raise grpc.RpcError("the proxy says no")


def _intercept(monkeypatch: pytest.MonkeyPatch, interceptor: Any) -> None:
    plain = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **n: grpc.intercept_channel(plain(*a, **n), interceptor))


@pytest.mark.parametrize("interceptor", [_Lazy(), _Eager()], ids=["lazy", "eager"])
@pytest.mark.parametrize("primary", ["grpc", "shm"])
def test_streams_behind_an_interceptor_are_answered_and_compared(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, interceptor: Any, primary: str
) -> None:
    _intercept(monkeypatch, interceptor)
    policy.decision = Decision(primary, "shm" if primary == "grpc" else "grpc", "shadow")
    with serve().channel() as channel:
        assert list(channel.unary_stream(COUNT)(b"abc", timeout=PATIENCE_S)) == [b"a", b"b", b"c"]
        assert list(channel.stream_stream(CHAT)(iter([b"1", b"2"]), timeout=PATIENCE_S)) == [b"1", b"2"]
        assert channel.unary_unary(ECHO)(b"x", timeout=PATIENCE_S) == b"x"
        assert channel.unary_unary(ECHO).future(b"y", timeout=PATIENCE_S).result() == b"y"
        noted = policy.wait(4)
    assert {one.primary.code for one in noted} == {"OK"}
    answered = [one for one in noted if one.shadow is not None]
    assert answered
    for one in answered:
        assert one.shadow.code == "OK"
        assert list(one.shadow.items) == list(one.primary.items)


def test_a_stream_that_its_program_leaves_ends(serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _intercept(monkeypatch, _Lazy())
    with serve().channel() as channel:
        stream = channel.unary_stream(COUNT)(b"abc", timeout=PATIENCE_S)
        assert next(stream) == b"a"
        del stream
        assert policy.only().primary.transport == "grpc"


@pytest.mark.parametrize("future", [False, True])
def test_an_error_of_an_interceptor_reaches_the_program_as_it_is(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, future: bool
) -> None:
    _intercept(monkeypatch, _Failing())
    policy.decision = Decision("grpc", "", "grpc")
    with serve().channel() as channel:
        echo = channel.unary_unary(ECHO)
        call = (lambda: echo.future(b"x", timeout=PATIENCE_S).result()) if future else (lambda: echo(b"x"))
        with pytest.raises(grpc.RpcError, match="the proxy says no"):
            call()
