"""Calls through a channel, beside what `differential` compares with gRPC's own: words, timeouts, dropped channels."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc

Code = grpc.StatusCode


@pytest.mark.parametrize("invoke", [lambda stub: stub.fail(b"gone"), lambda stub: stub.fail.with_call(b"gone")])
def test_what_a_unary_call_raises_is_error_call_and_future_in_one(stub: Any, failure: Any, invoke: Any) -> None:
    error = failure(lambda: invoke(stub))
    assert {grpc.RpcError, grpc.Call, grpc.Future} <= set(type(error).__mro__)
    assert (error.code(), error.details()) == (Code.NOT_FOUND, "gone")
    assert error.trailing_metadata() == (("why", "so"),)
    assert error.debug_error_string() == "NOT_FOUND:gone"
    assert error.exception() is error
    assert 'details = "gone"' in str(error)


@pytest.mark.parametrize("timeout", [0, -1, -1e9, float("nan")])
def test_a_timeout_that_is_over_ends_the_call_before_it_began(stub: Any, failure: Any, timeout: float) -> None:
    for call in (
        lambda: stub.echo(b"", timeout=timeout),
        lambda: stub.echo.future(b"", timeout=timeout).result(),
        lambda: list(stub.count(b"3", timeout=timeout)),
        lambda: stub.join(iter([b"x"]), timeout=timeout),
        lambda: list(stub.relay(iter([b"x"]), timeout=timeout)),
    ):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.DEADLINE_EXCEEDED, "Deadline Exceeded")


def test_a_timeout_that_is_longer_than_any_clock_is_none(stub: Any) -> None:
    assert stub.echo(b"x", timeout=float("inf")) == b"x"
    assert stub.echo(b"x", timeout=1e300) == b"x"


def test_methods_and_calls_go_on_when_their_channel_is_dropped(stub: Any) -> None:
    echo, linger = stub.echo, stub.linger(b"x")
    stub.__dict__.clear()
    gc.collect()
    assert echo(b"x") == b"x"
    del echo
    gc.collect()
    assert next(linger) == b"x"
    linger.cancel()


def test_a_channel_can_be_a_key_and_be_referred_to_weakly(connect: Any) -> None:
    channel = connect()
    assert {channel: 1}[channel] == 1
    assert weakref.ref(channel)() is channel


def test_metadata_beyond_what_a_header_holds_exhaust_it(stub: Any, failure: Any) -> None:
    error = failure(lambda: stub.echo(b"", metadata=(("k", "v" * 20000),)))
    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert error.details() == "received metadata size exceeds hard limit (value length 20000 vs. 16384)"
    error = failure(lambda: stub.echo(b"", metadata=[("k", "v" * 100)] * 200))
    assert error.details() == "received metadata size exceeds hard limit (26600 vs. 16384)"
    assert stub.echo(b"", metadata=(("k", "v" * 8000),)) == b""
