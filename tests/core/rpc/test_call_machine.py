"""The tables of calls, and random lives of calls against a plain model: two queues and what each side has said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lucky_transport.codec.envelope import Kind
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, EngineFailed, LocalProtocolError, PeerTimeout, RemoteProtocolError
from lucky_transport.messages.methods import Flow
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.lifecycle import CLIENT_SENDS, SERVER_SENDS, Shape, StreamState, after, opened
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.support.memory_pipe import memory_pipes


def reachable(shape: Shape) -> set[StreamState]:
    """Return every state that a call of that shape can be in."""
    seen, waiting = {opened(shape)}, [opened(shape)]
    while waiting:
        state = waiting.pop()
        for table in (CLIENT_SENDS, SERVER_SENDS):
            new = set(table[state].values()) - seen
            seen |= new
            waiting.extend(new)
    return seen


@pytest.mark.parametrize("shape", Shape)
def test_a_call_of_any_shape_carries_what_its_shape_says_and_ends(shape: Shape) -> None:
    states = reachable(shape)
    assert StreamState.ENDED in states
    assert any(Kind.STREAM_ITEM in CLIENT_SENDS[state] for state in states) == bool(shape & Shape.CLIENT_STREAM)
    assert any(Kind.STREAM_ITEM in SERVER_SENDS[state] for state in states) == bool(shape & Shape.SERVER_STREAM)
    assert any(Kind.RESPONSE in SERVER_SENDS[state] for state in states) != bool(shape & Shape.SERVER_STREAM)
    assert any(Kind.HALF_CLOSE in CLIENT_SENDS[state] for state in states) == bool(shape & Shape.CLIENT_STREAM)


@pytest.mark.parametrize("table", [CLIENT_SENDS, SERVER_SENDS], ids=["client", "server"])
def test_each_end_can_end_every_call_once(table: dict[StreamState, dict[Kind, StreamState]]) -> None:
    gives_up = Kind.CANCEL if table is CLIENT_SENDS else Kind.ERROR
    assert set(table) == set(StreamState)
    for state, row in table.items():
        assert (row.get(gives_up) is StreamState.ENDED) == (state is not StreamState.ENDED)
    assert not table[StreamState.ENDED]


def test_what_is_not_in_the_table_is_the_fault_of_the_end_that_sends_it() -> None:
    with pytest.raises(LocalProtocolError, match="cannot send the response: a call is ended; open another one"):
        after(SERVER_SENDS, StreamState.ENDED, Kind.RESPONSE, lambda: "a call", ours=True)
    with pytest.raises(RemoteProtocolError, match="the peer sent a half-close, but a call is awaiting one response"):
        after(CLIENT_SENDS, StreamState.HALF_CLOSED_ONE, Kind.HALF_CLOSE, lambda: "a call", ours=False)


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
        assert self.server.open_calls == still_open
        assert self.client.open_calls == still_open

    def teardown(self) -> None:
        self.client.close()
        self.server.close()


TestCalls = Calls.TestCase
TestCalls.settings = settings(stateful_step_count=40)
