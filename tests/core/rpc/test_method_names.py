"""A method called by name travels by name once, and by a number of its connection from then on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lucky_transport.codec.envelope import Envelope, Kind, decode_compact, decode_envelope, encode_envelope
from lucky_transport.errors import EngineFailed, RemoteProtocolError, SpecError, Unimplemented
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.requests import FIRST_NUMBER, MethodNameDecoder, MethodNameEncoder
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.support.memory_pipe import CallPair, MemoryPipe, memory_pipes
from tests.support.waiting import soon


def test_the_second_request_of_a_method_is_a_plain_one(
    open_pair: Callable[..., CallPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[bytes] = []
    push = MemoryPipe.try_push

    def noted(self: MemoryPipe, record: bytes, *said: int) -> bool:
        if self is pair.client_pipe:
            records.append(bytes(record))
        return push(self, record, *said)

    monkeypatch.setattr(MemoryPipe, "try_push", noted)
    pair = open_pair()
    for payload in (b"1", b"2", b"3"):
        assert pair.client.unary("/t/echo", payload, soon()) == payload
    first, *others = records
    assert decode_envelope(first).path == "/t/echo"
    assert [isinstance(fields, tuple) and fields[3] == FIRST_NUMBER + 1 for fields in map(decode_compact, others)] == [
        True,
        True,
    ]
    assert [call.name for call in pair.begun] == ["/t/echo"] * 3


def test_metadata_and_streams_go_by_the_number_too(pair: CallPair) -> None:
    pair.client.unary("/t/headers", b"", soon())
    sent = (("key", "1"), ("key", "ä"), ("raw-bin", b"\xff\x00"))
    assert pair.client.unary("/t/headers", b"", soon(), sent) == repr(sent).encode()
    for _ in range(2):
        call = pair.client.open("/t/count", b"2", shape=Shape.SERVER_STREAM)
        assert [call.recv(soon()) for _ in range(3)] == [b"0", b"1", None]
        assert call.trailing == (("sent", "2"),)


def test_a_request_that_travels_in_pieces_gives_a_number_once_it_was_answered(
    open_pair: Callable[..., CallPair],
) -> None:
    pair = open_pair(capacity=4096)
    with pytest.raises(EngineFailed):
        pair.client.unary("/t/fail", bytes(9000), soon())
    for _ in range(2):
        assert pair.client.unary("/t/echo", bytes(9000), soon()) == bytes(9000)
    assert pair.client.unary("/t/echo", b"x", soon()) == b"x"
    with pytest.raises(EngineFailed):
        pair.client.unary("/t/fail", bytes(9000), soon())
    assert [call.name for call in pair.begun] == ["/t/fail", "/t/echo", "/t/echo", "/t/echo", "/t/fail"]
    assert [
        call.method >= FIRST_NUMBER and call.method != FIRST_NUMBER + call.correlation_id for call in pair.begun
    ] == [False, False, True, True, False]


@pytest.mark.parametrize("may_wait", [True, False])
@pytest.mark.parametrize(("path", "shape"), [("/t/echo", Shape.UNARY), ("/t/count", Shape.SERVER_STREAM)])
def test_a_long_request_gives_a_number_once_its_call_has_ended_well(
    path: str, shape: Shape, may_wait: bool, pair: CallPair
) -> None:
    long_count = b"2" + b" " * 1500
    for _ in range(2):
        call = pair.client.open(path, long_count, shape=shape, may_wait=may_wait)
        assert call.wait_end(soon())
    first, second = pair.begun
    assert first.method == FIRST_NUMBER + first.correlation_id
    assert second.method == first.method


def test_a_long_request_that_was_refused_gave_no_number(open_pair: Callable[..., CallPair]) -> None:
    pair = open_pair(max_message_bytes=5000)
    for length, is_taken in ((9000, False), (9000, False), (4000, True), (9000, False), (4000, True)):
        if is_taken:
            assert len(pair.client.unary("/t/echo", bytes(length), soon())) == length
        else:
            with pytest.raises(SpecError, match="a message of 9000 bytes, the limit is 5000"):
                pair.client.unary("/t/echo", bytes(length), soon())


def test_there_are_only_so_many_numbers_and_the_other_methods_go_by_name() -> None:
    book = MethodNameEncoder()
    for call in range(1, 3000):
        book.left(f"/s/{call}", call)
    assert book.get("/s/1024") == FIRST_NUMBER + 1024
    assert book.get("/s/1025") is None
    assert book.number("/s/5000", 5000) == 0


def test_a_method_without_a_name_is_unknown_and_costs_nobody_the_connection(pair: CallPair) -> None:
    for _ in range(2):
        with pytest.raises(Unimplemented):
            pair.client.unary("", b"", soon())
    assert pair.client.unary("/t/echo", b"x", soon()) == b"x"


def test_a_number_that_was_never_given_drops_the_caller() -> None:
    pipe, end = memory_pipes()
    calls = ServerCalls(end, list[ServerCall]().append)
    pipe.try_push(encode_envelope(Envelope(FIRST_NUMBER + 9, 1, Kind.REQUEST)))
    with pytest.raises(
        RemoteProtocolError, match=f"method {FIRST_NUMBER + 9}, a number that this caller has not given"
    ):
        calls.feed()


def test_a_caller_cannot_make_the_engine_remember_without_end() -> None:
    book = MethodNameDecoder()
    for call in range(8192):
        book.note(FIRST_NUMBER + call, call, f"/s/{call}")
    with pytest.raises(RemoteProtocolError, match="given 8192 methods numbers, and gives one more"):
        book.note(FIRST_NUMBER + 8192, 8192, "/s/8192")


def test_a_number_is_only_ever_that_of_the_call_that_gives_it() -> None:
    book = MethodNameDecoder()
    book.note(FIRST_NUMBER + 1, 1, "/s/honest")
    book.note(FIRST_NUMBER + 1, 2, "/s/thief")
    assert book.name(FIRST_NUMBER + 1) == "/s/honest"
