"""Random lives of calls against a plain model, and how a call names its method."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lucky_transport.codec.envelope import Envelope, Kind, decode_compact, decode_envelope, encode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    Cancelled,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
    Unimplemented,
)
from lucky_transport.messages.methods import Flow
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.requests import FIRST_NUMBER, MethodNameDecoder, MethodNameEncoder
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.core.rpc.conftest import OpenPair
from tests.support.memory_pipe import CallPair, MemoryPipe, memory_pipes
from tests.support.waiting import soon


def has_credit(end: Any) -> bool:
    """True when this end may send an item without waiting."""
    return end._send_window.is_open


class Model:
    """One call: both ends of it, and what a perfect wire would have done."""

    def __init__(self, call: ClientCall, shape: Shape) -> None:
        self.call, self.shape = call, shape
        self.served: ServerCall
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.closed_up = not shape & Shape.CLIENT_STREAM
        self.end = ""  # "", "finished", "failed" or "cancelled"
        self.is_read = False  # the caller knows the end


class Calls(RuleBasedStateMachine):
    """Client and server in one thread: every wait is one that needs none, or is expected to time out."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        pipe, end = memory_pipes(1 << 20)
        self.began: list[ServerCall] = []
        self.client = ClientCalls(pipe)
        self.server = ServerCalls(end, self.began.append)
        self.live: list[Model] = []

    def exchange(self) -> None:
        """Let everything arrive that is under way."""
        for _ in range(3):
            self.server.feed()
            self.client.pump()

    @rule(target=calls, shape=st.sampled_from(Shape), flow=st.sampled_from(Flow), payload=st.binary(max_size=5))
    def open(self, shape: Shape, flow: Flow, payload: bytes) -> Model:
        model = Model(self.client.open("/t/any", payload, shape=shape, flow=flow), shape)
        self.exchange()
        model.served = self.began[-1]
        assert model.served.payload == payload
        assert model.served.shape == shape
        self.live.append(model)
        return model

    @rule(model=calls, item=st.binary(max_size=3000), waits=st.booleans())
    def send_up(self, model: Model, item: bytes, waits: bool) -> None:
        try:
            if waits:
                model.call.send(item, Deadline(0))
            elif not model.call.try_send(item):
                raise PeerTimeout("no credit")
        except PeerTimeout:
            assert not model.end
            assert not has_credit(model.call)
        except (LocalProtocolError, Cancelled, EngineFailed):
            assert model.closed_up or model.end
        else:
            assert not model.closed_up
            model.up.append(item)
        self.exchange()

    @rule(model=calls)
    def read_up(self, model: Model) -> None:
        if not model.end and model.shape & Shape.CLIENT_STREAM and (model.up or model.closed_up):
            assert model.served.recv() == (model.up.pop(0) if model.up else None)
            self.exchange()

    @rule(model=calls)
    def accept(self, model: Model) -> None:
        if not model.end and model.shape & Shape.CLIENT_STREAM:
            model.served.accept()
            self.exchange()

    @rule(model=calls)
    def half_close(self, model: Model) -> None:
        try:
            model.call.half_close()
        except (LocalProtocolError, Cancelled, EngineFailed):
            assert model.closed_up or model.end
        else:
            assert not model.closed_up
            model.closed_up = True
        self.exchange()

    @rule(model=calls, item=st.binary(max_size=3000))
    def send_down(self, model: Model, item: bytes) -> None:
        try:
            if not model.shape & Shape.SERVER_STREAM or model.end or has_credit(model.served):
                model.served.send(item)
            elif not model.served.try_send(item):
                return
        except (LocalProtocolError, Cancelled):
            assert model.end or not model.shape & Shape.SERVER_STREAM
        else:
            assert model.shape & Shape.SERVER_STREAM
            model.down.append(item)
        self.exchange()

    @rule(model=calls)
    def read_down(self, model: Model) -> None:
        try:
            item = model.call.recv(Deadline(0))
        except PeerTimeout:
            assert not model.down
            assert not model.end
        except Cancelled:
            assert model.end == "cancelled"
        except EngineFailed:
            assert not model.down
            assert model.end == "failed"
            model.is_read = True
        else:
            model.is_read = item is None
            assert item == (model.down.pop(0) if model.down else None)
            assert item is not None or model.end == "finished"
        self.exchange()

    @rule(model=calls, payload=st.binary(max_size=5))
    def finish(self, model: Model, payload: bytes) -> None:
        self.end(model, "finished", lambda: model.served.finish(payload))
        if model.end == "finished" and not model.shape & Shape.SERVER_STREAM and not hasattr(model, "answered"):
            model.answered = True  # type: ignore[attr-defined]
            model.down.append(payload)

    @rule(model=calls)
    def fail(self, model: Model) -> None:
        self.end(model, "failed", lambda: model.served.fail(EngineFailed("no")))

    def end(self, model: Model, how: str, act: Any) -> None:
        try:
            act()
        except LocalProtocolError:
            assert model.end in ("finished", "failed")
        else:
            assert model.end in ("", "cancelled")
            model.end = model.end or how
        self.exchange()

    @rule(model=consumes(calls))
    def cancel(self, model: Model) -> None:
        model.call.cancel()
        if not model.is_read:
            model.end = "cancelled"
            model.down.clear()
        self.exchange()
        self.read_down(model)
        assert model.served.is_over

    @invariant()
    def both_sides_know_the_same_calls(self) -> None:
        still_open = sum(not model.end for model in self.live)
        assert len(self.server.open_calls) == still_open
        assert len(self.client.open_calls) == still_open

    def teardown(self) -> None:
        self.client.close()
        self.server.close()


TestCalls = Calls.TestCase
TestCalls.settings = settings(stateful_step_count=40)


def test_a_methods_second_request_is_plain(open_pair: OpenPair, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert [fields[3] for record in others if isinstance(fields := decode_compact(record), tuple)] == [
        FIRST_NUMBER + 1
    ] * 2
    assert [call.name for call in pair.begun] == ["/t/echo"] * 3


def test_metadata_and_streams_go_by_the_number_too(pair: CallPair) -> None:
    pair.client.unary("/t/headers", b"", soon())
    sent = (("key", "1"), ("key", "ä"), ("raw-bin", b"\xff\x00"))
    assert pair.client.unary("/t/headers", b"", soon(), sent) == repr(sent).encode()
    for _ in range(2):
        call = pair.client.open("/t/count", b"2", shape=Shape.SERVER_STREAM)
        assert [call.recv(soon()) for _ in range(3)] == [b"0", b"1", None]
        assert call.trailing == (("sent", "2"),)


def test_a_request_in_pieces_gives_a_number_once_it_was_answered(open_pair: OpenPair) -> None:
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
def test_a_long_request_gives_a_number_once_answered(path: str, shape: Shape, may_wait: bool, pair: CallPair) -> None:
    long_count = b"2" + b" " * 1500
    for _ in range(2):
        call = pair.client.open(path, long_count, shape=shape, may_wait=may_wait)
        assert call.wait_end(soon())
    first, second = pair.begun
    assert first.method == FIRST_NUMBER + first.correlation_id
    assert second.method == first.method


def test_a_long_request_that_was_refused_gave_no_number(open_pair: OpenPair) -> None:
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
    assert book[FIRST_NUMBER + 1] == "/s/honest"
