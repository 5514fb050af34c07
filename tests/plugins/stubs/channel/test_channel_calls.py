"""Calls of every arity through a channel: what they return, what they raise, what comes with both."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc

Code = grpc.StatusCode


def test_a_call_of_each_arity_returns_what_the_server_answers(stub: Any) -> None:
    assert stub.echo(b"one") == b"one"
    assert list(stub.count(b"3")) == [b"0", b"1", b"2"]
    assert stub.join(iter([b"a", b"b", b"c"])) == b"abc"
    assert list(stub.relay(iter([b"a", b"b"]))) == [b"a", b"b"]


def test_streams_of_nothing_and_empty_messages_arrive_as_such(stub: Any) -> None:
    assert stub.echo(b"") == b""
    assert list(stub.count(b"0")) == []
    assert stub.join(iter([])) == b""
    assert list(stub.relay(iter([b"", b""]))) == [b"", b""]


def test_messages_of_megabytes_arrive_whole_in_both_directions(stub: Any) -> None:
    message = bytes(range(256)) * (4 << 12)
    assert stub.echo(message) == message
    assert list(stub.relay(iter([message, b"x"]))) == [message, b"x"]


def test_serializers_are_used_where_they_are_given(stub: Any) -> None:
    call = stub.channel.unary_unary("/test.Service/echo", str.encode, bytes.decode)
    assert call("text") == "text"
    count = stub.channel.unary_stream("/test.Service/count", request_serializer=str.encode, response_deserializer=int)
    assert list(count("3")) == [0, 1, 2]


def test_metadata_of_a_call_come_in_order_with_duplicates_and_as_named_pairs(stub: Any, service: Any) -> None:
    sent = (("key", "1"), ("key-bin", b"\x00\xfe"), ("key", "2"))
    _, call = stub.echo.with_call(b"", metadata=sent)
    assert tuple(service.seen)[1:] == sent
    assert call.initial_metadata() == (("first", "1"), ("first-bin", b"\x00\xff"))
    assert call.trailing_metadata() == (("last", "1"), ("last", "2"), ("last-bin", b"\x01"))
    assert [entry.key for entry in call.trailing_metadata()] == ["last", "last", "last-bin"]
    assert call.initial_metadata()[0].value == "1"


def test_the_server_hears_what_kind_of_caller_it_has(stub: Any, connect: Any, service: Any) -> None:
    stub.echo(b"")
    assert service.seen[0].key == "user-agent"
    assert service.seen[0].value.startswith("grpc-python/")
    channel = connect(options=[("grpc.primary_user_agent", "robot/1")])
    channel.unary_unary("/test.Service/echo")(b"", metadata=(("user-agent", "cannot be set so"), ("k", "v")))
    assert service.seen[0].value.startswith("robot/1 grpc-python/")
    assert [entry.key for entry in service.seen] == ["user-agent", "k"]


def test_with_call_gives_a_finished_call_beside_the_response(stub: Any) -> None:
    response, call = stub.echo.with_call(b"x", timeout=10)
    assert (response, call.result(), call.code(), call.details()) == (b"x", b"x", Code.OK, "")
    assert grpc.Call in type(call).__mro__
    assert (call.done(), call.running(), call.cancelled(), call.is_active()) == (True, False, False, False)
    assert call.exception() is None
    assert call.traceback() is None
    assert not call.cancel()
    assert not call.add_callback(lambda: None)
    response, call = stub.join.with_call(iter([b"a"]))
    assert (response, call.code(), call.result()) == (b"a", Code.OK, b"a")


@pytest.mark.parametrize("invoke", [lambda stub: stub.fail(b"gone"), lambda stub: stub.fail.with_call(b"gone")])
def test_what_a_unary_call_raises_is_error_call_and_future_in_one(stub: Any, failure: Any, invoke: Any) -> None:
    error = failure(lambda: invoke(stub))
    assert {grpc.RpcError, grpc.Call, grpc.Future} <= set(type(error).__mro__)
    assert (error.code(), error.details()) == (Code.NOT_FOUND, "gone")
    assert error.trailing_metadata() == (("why", "so"),)
    assert error.debug_error_string() == "NOT_FOUND:gone"
    assert error.exception() is error
    assert 'details = "gone"' in str(error)


def test_a_method_that_nobody_serves_is_unimplemented(stub: Any, failure: Any) -> None:
    error = failure(lambda: stub.unknown(b""))
    assert (error.code(), error.details()) == (Code.UNIMPLEMENTED, "Method not found!")
    assert failure(lambda: stub.channel.unary_unary("")(b"")).code() is Code.UNIMPLEMENTED
    assert stub.echo(b"the channel goes on") == b"the channel goes on"


def test_a_method_may_be_named_in_bytes_and_registered_in_both_ways(stub: Any) -> None:
    assert stub.channel.unary_unary(b"/test.Service/echo")(b"x") == b"x"
    assert stub.channel.unary_unary("/test.Service/echo", None, None, True)(b"x") == b"x"
    assert stub.channel.stream_stream("/test.Service/relay", _registered_method=True)(iter([b"x"])).next() == b"x"


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


def test_a_timeout_ends_a_call_that_takes_too_long_and_the_server_learns_it(
    stub: Any, failure: Any, service: Any
) -> None:
    for timeout in (0.05, 0.5, 5.0, 50.0):  # the next one where a busy machine came to the handler too late
        error = failure(partial(stub.wait, b"", timeout=timeout))
        assert (error.code(), error.details()) == (Code.DEADLINE_EXCEEDED, "Deadline Exceeded")
        if service.over.wait(timeout):
            return
    raise AssertionError("the server never learned of the end")


def test_a_timeout_that_is_longer_than_any_clock_is_none(stub: Any) -> None:
    assert stub.echo(b"x", timeout=float("inf")) == b"x"
    assert stub.echo(b"x", timeout=1e300) == b"x"


def test_credentials_of_a_call_are_refused_as_on_any_insecure_channel(stub: Any, failure: Any) -> None:
    credentials = grpc.access_token_call_credentials("secret")
    for call in (
        lambda: stub.echo(b"", credentials=credentials),
        lambda: list(stub.count(b"1", credentials=credentials)),
        lambda: stub.join(iter([]), credentials=credentials),
    ):
        assert failure(call).code() is Code.UNAUTHENTICATED
    with pytest.raises(AttributeError):
        stub.echo(b"", credentials="none at all")


def test_compression_may_be_asked_for(stub: Any) -> None:
    assert stub.echo(b"x", compression=grpc.Compression.Gzip) == b"x"


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
