"""The tables of calls: every state leads to the end, and each end sends only what its shape allows."""

from __future__ import annotations

import pytest

from lucky_transport.codec.envelope import Kind
from lucky_transport.errors import LocalProtocolError, RemoteProtocolError
from lucky_transport.rpc.lifecycle import CLIENT_SENDS, SERVER_SENDS, Shape, StreamState, after, opened


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


def test_after_its_half_close_a_client_sends_no_items_and_waits_for_the_same_answer() -> None:
    for before, half_closed in (("OPEN_ONE", "HALF_CLOSED_ONE"), ("OPEN_MANY", "HALF_CLOSED_MANY")):
        following = CLIENT_SENDS[StreamState[before]][Kind.HALF_CLOSE]
        assert following is StreamState[half_closed]
        assert Kind.STREAM_ITEM not in CLIENT_SENDS[following]
        assert set(SERVER_SENDS[following]) == set(SERVER_SENDS[StreamState[before]])


def test_what_is_not_in_the_table_is_the_fault_of_the_end_that_sends_it() -> None:
    with pytest.raises(LocalProtocolError, match="cannot send the response: a call is ended; open another one"):
        after(SERVER_SENDS, StreamState.ENDED, Kind.RESPONSE, lambda: "a call", ours=True)
    with pytest.raises(RemoteProtocolError, match="the peer sent a half-close, but a call is awaiting one response"):
        after(CLIENT_SENDS, StreamState.HALF_CLOSED_ONE, Kind.HALF_CLOSE, lambda: "a call", ours=False)


@pytest.mark.parametrize("shape", [4, 2**32 - 1])
def test_a_shape_that_does_not_exist_is_the_peers_fault(shape: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"streams = {shape}; known are 0 to 3"):
        opened(shape)
