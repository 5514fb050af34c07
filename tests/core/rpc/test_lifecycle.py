"""The tables of calls: every row leads on, and both ends agree about each other."""

from __future__ import annotations

import pytest

from lucky_transport.errors import LocalProtocolError, RemoteProtocolError
from lucky_transport.rpc.lifecycle import ANSWERER, CALLER, Shape, StreamEvent, StreamState, after, opened

#: What one end does is what happens to the other.
MIRROR = {
    StreamEvent.SEND: StreamEvent.PEER_SENDS,
    StreamEvent.HALF_CLOSE: StreamEvent.PEER_HALF_CLOSES,
    StreamEvent.CANCEL: StreamEvent.PEER_CANCELS,
    StreamEvent.RESPOND: StreamEvent.PEER_RESPONDS,
    StreamEvent.FINISH: StreamEvent.PEER_FINISHES,
    StreamEvent.FAIL: StreamEvent.PEER_FAILS,
}


@pytest.mark.parametrize("shape", Shape)
def test_whatever_one_end_may_do_the_other_end_understands(shape: Shape) -> None:
    """Explores all pairs of states that two honest ends without delay can reach."""
    start = opened(StreamEvent.OPEN, shape), opened(StreamEvent.PEER_OPENS, shape)
    seen, waiting = {start}, [start]
    while waiting:
        caller, answerer = waiting.pop()
        for event, mirrored in MIRROR.items():
            for mine, theirs, swapped in ((CALLER, ANSWERER, False), (ANSWERER, CALLER, True)):
                state, other = (answerer, caller) if swapped else (caller, answerer)
                following = mine[state].get(event)
                if following is None or StreamState.ENDED in (state, other):
                    continue
                after_both = following, after(theirs, other, mirrored)
                pair = (after_both[1], after_both[0]) if swapped else after_both
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    assert (StreamState.ENDED, StreamState.ENDED) in seen
    assert all((caller is StreamState.ENDED) == (answerer is StreamState.ENDED) for caller, answerer in seen)


def test_every_state_but_the_first_and_the_last_can_be_given_up() -> None:
    for table in (CALLER, ANSWERER):
        for state, row in table.items():
            if state is not StreamState.IDLE:
                assert row[StreamEvent.LOSE] is StreamState.ENDED


def test_what_is_not_in_the_table_is_the_fault_of_whoever_did_it() -> None:
    with pytest.raises(LocalProtocolError, match="cannot send the response: the call is ended; open another one"):
        after(ANSWERER, StreamState.ENDED, StreamEvent.RESPOND)
    with pytest.raises(RemoteProtocolError, match="the peer sent a half-close, but the call is owing one response"):
        after(ANSWERER, StreamState.ANSWERING_ONE, StreamEvent.PEER_HALF_CLOSES)


@pytest.mark.parametrize("shape", [4, 2**32 - 1])
def test_a_shape_that_does_not_exist_is_the_peers_fault(shape: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"streams = {shape}; known are 0 to 3"):
        opened(StreamEvent.PEER_OPENS, shape)
