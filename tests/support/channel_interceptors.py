"""Interceptors that a process puts around every channel of gRPC, as OpenTelemetry's instrumentation does."""

import itertools
from typing import Any

import grpc
import pytest


def intercept(monkeypatch: pytest.MonkeyPatch, interceptor: Any) -> None:
    """Have every insecure channel that is made from now on go through this interceptor."""
    plain = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **n: grpc.intercept_channel(plain(*a, **n), interceptor))


class Lazy(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns a generator for a stream, as OpenTelemetry does: the call is made when its first item is asked for."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        yield from continuation(client_call_details, request)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        yield from continuation(client_call_details, request_iterator)


class Eager(Lazy):
    """Returns an iterator around a call that is under way; it has no `close` either."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request_iterator))


class Failing(Lazy):
    """Fails whatever it is asked for, in gRPC's class but without anything that a call has."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        raise grpc.RpcError("the proxy says no")
