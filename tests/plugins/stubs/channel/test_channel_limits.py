"""What cannot be sent or taken: messages that are none or too long, metadata that may not be."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc

Code = grpc.StatusCode
MOST = 4 << 20


def test_a_response_of_four_mebibytes_is_taken_and_one_byte_more_is_not(stub: Any, failure: Any) -> None:
    assert len(stub.big(b"%d" % MOST)) == MOST
    for call in (lambda: stub.big(b"%d" % (MOST + 1)), lambda: stub.big.future(b"%d" % (MOST + 1)).result()):
        error = failure(call)
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert error.details() == f"CLIENT: Received message larger than max ({MOST + 1} vs. {MOST})"


def test_a_request_that_the_server_does_not_take_is_refused_in_its_words(stub: Any, failure: Any) -> None:
    error = failure(lambda: stub.echo(bytes(MOST + 1)))
    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert error.details() == f"SERVER: Received message larger than max ({MOST + 1} vs. {MOST})"
    assert stub.echo(b"the channel goes on") == b"the channel goes on"


def test_options_move_both_limits_of_a_channel(serve: Any, connect: Any, failure: Any) -> None:
    serve()
    channel = connect(options=[("grpc.max_send_message_length", 10), ("grpc.max_receive_message_length", 10)])
    echo, join = channel.unary_unary("/test.Service/echo"), channel.stream_unary("/test.Service/join")
    endless = channel.unary_stream("/test.Service/endless")
    assert echo(bytes(10)) == bytes(10)
    too_long = "CLIENT: Sent message larger than max (11 vs. 10)"
    for call in (
        lambda: echo(bytes(11)),
        lambda: echo.future(bytes(11)).result(),
        lambda: join(iter([b"", bytes(11)])),
    ):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.RESOURCE_EXHAUSTED, too_long)
    too_long = "CLIENT: Received message larger than max (11 vs. 10)"
    for call in (lambda: channel.unary_unary("/test.Service/big")(b"11"), lambda: next(endless(b"11"))):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.RESOURCE_EXHAUSTED, too_long)


def test_without_a_limit_any_length_is_taken(serve: Any, connect: Any) -> None:
    serve()
    channel = connect(options=[("grpc.max_receive_message_length", -1)])
    assert len(channel.unary_unary("/test.Service/big")(b"%d" % (2 * MOST))) == 2 * MOST


@pytest.mark.parametrize("broken", [lambda request: 1 / 0, lambda request: None])
def test_a_request_that_cannot_be_serialized_fails_the_call(stub: Any, failure: Any, broken: Any) -> None:
    channel = stub.channel
    for call in (
        lambda: channel.unary_unary("/test.Service/echo", broken)(1),
        lambda: channel.unary_unary("/test.Service/echo", broken).future(1),
        lambda: channel.unary_stream("/test.Service/count", broken)(1),
        lambda: channel.stream_unary("/test.Service/join", broken)(iter([1])),
        lambda: next(channel.stream_stream("/test.Service/relay", broken)(iter([1]))),
    ):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.INTERNAL, "Exception serializing request!")


@pytest.mark.parametrize("request_", [5, "text", bytearray(b"x"), memoryview(b"x")], ids=lambda one: type(one).__name__)
def test_what_is_no_bytes_is_a_type_error_without_a_serializer(stub: Any, request_: Any) -> None:
    for call in (stub.echo, stub.echo.future, stub.count):
        with pytest.raises(TypeError, match=f"expected bytes, got {type(request_).__name__}"):
            call(request_)


@pytest.mark.parametrize("broken", [lambda payload: 1 / 0, lambda payload: None])
def test_a_response_that_cannot_be_read_fails_the_call_and_keeps_its_metadata(
    stub: Any, failure: Any, broken: Any
) -> None:
    channel = stub.channel
    echo = channel.unary_unary("/test.Service/echo", response_deserializer=broken)
    for call in (lambda: echo(b"x"), lambda: echo.future(b"x").result()):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.INTERNAL, "Exception deserializing response!")
        assert error.initial_metadata()[0] == ("first", "1")
        assert error.trailing_metadata()[0] == ("last", "1")
    count = channel.unary_stream("/test.Service/count", response_deserializer=broken)(b"3")
    assert failure(lambda: next(count)).code() is Code.INTERNAL
    assert failure(lambda: next(count)) is count


@pytest.mark.parametrize(
    "metadata", [(("Upper", "v"),), (("k", "line\n"),), (("k", "é"),), (("", "v"),), ((":k", "v"),), (("k y", "v"),)]
)
def test_metadata_that_may_not_be_in_a_header_fail_the_call(stub: Any, failure: Any, metadata: Any) -> None:
    for call in (
        lambda: stub.echo(b"", metadata=metadata),
        lambda: stub.echo.future(b"", metadata=metadata).result(),
        lambda: list(stub.count(b"1", metadata=metadata)),
        lambda: stub.join(iter([]), metadata=metadata),
    ):
        error = failure(call)
        assert (error.code(), error.details()) == (Code.INTERNAL, "Invalid metadata")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((("k-bin", "text"),), TypeError),
        ((("k", 5),), TypeError),
        (((5, "v"),), TypeError),
        (5, TypeError),
        ((("k",),), ValueError),
        ((("k", "v", "w"),), ValueError),
    ],
)
def test_metadata_that_are_no_pairs_of_texts_are_a_mistake_of_the_program(
    stub: Any, metadata: Any, expected: type[Exception]
) -> None:
    for call in (stub.echo, stub.echo.future, stub.count, stub.join):
        with pytest.raises(expected):
            call(b"1", metadata=metadata)


def test_metadata_beyond_what_a_header_holds_exhaust_it(stub: Any, failure: Any) -> None:
    error = failure(lambda: stub.echo(b"", metadata=(("k", "v" * 20000),)))
    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert error.details() == "received metadata size exceeds hard limit (value length 20000 vs. 16384)"
    error = failure(lambda: stub.echo(b"", metadata=[("k", "v" * 100)] * 200))
    assert error.details() == "received metadata size exceeds hard limit (26600 vs. 16384)"
    assert stub.echo(b"", metadata=(("k", "v" * 8000),)) == b""


@pytest.mark.parametrize("place", [b"initial", b"trailing"])
def test_metadata_of_a_server_have_the_same_limit(stub: Any, failure: Any, place: bytes) -> None:
    for call in (lambda: stub.verbose(place), lambda: stub.verbose.future(place).result()):
        error = failure(call)
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert "received metadata size exceeds hard limit" in error.details()
        assert (error.initial_metadata(), error.trailing_metadata()) == ((), ())
