"""The tables of calls: every row leads on, and both ends agree about each other."""

from __future__ import annotations

import pytest

from lucky_transport.errors import LocalProtocolError, RemoteProtocolError
from lucky_transport.rpc.lifecycle import ANSWERER, CALLER, Event, Shape, State, after, opened

#: What one end does is what happens to the other.
MIRROR = {
    Event.SEND: Event.PEER_SENDS,
    Event.HALF_CLOSE: Event.PEER_HALF_CLOSES,
    Event.CANCEL: Event.PEER_CANCELS,
    Event.RESPOND: Event.PEER_RESPONDS,
    Event.FINISH: Event.PEER_FINISHES,
    Event.FAIL: Event.PEER_FAILS,
}


@pytest.mark.parametrize("shape", Shape)
def test_whatever_one_end_may_do_the_other_end_understands(shape: Shape) -> None:
    """Explores all pairs of states that two honest ends without delay can reach."""
    start = opened(Event.OPEN, shape), opened(Event.PEER_OPENS, shape)
    seen, waiting = {start}, [start]
    while waiting:
        caller, answerer = waiting.pop()
        for event, mirrored in MIRROR.items():
            for mine, theirs, swapped in ((CALLER, ANSWERER, False), (ANSWERER, CALLER, True)):
                state, other = (answerer, caller) if swapped else (caller, answerer)
                following = mine[state].get(event)
                if following is None or State.ENDED in (state, other):
                    continue
                after_both = following, after(theirs, other, mirrored)
                pair = (after_both[1], after_both[0]) if swapped else after_both
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    assert (State.ENDED, State.ENDED) in seen
    assert all((caller is State.ENDED) == (answerer is State.ENDED) for caller, answerer in seen)


def test_every_state_but_the_first_and_the_last_can_be_given_up() -> None:
    for table in (CALLER, ANSWERER):
        for state, row in table.items():
            if state is not State.IDLE:
                assert row[Event.LOSE] is State.ENDED


def test_what_is_not_in_the_table_is_the_fault_of_whoever_did_it() -> None:
    with pytest.raises(LocalProtocolError, match="cannot send the response: the call is ended; open another one"):
        after(ANSWERER, State.ENDED, Event.RESPOND)
    with pytest.raises(RemoteProtocolError, match="the peer sent a half-close, but the call is owing one response"):
        after(ANSWERER, State.ANSWERING_ONE, Event.PEER_HALF_CLOSES)


@pytest.mark.parametrize("shape", [4, 2**32 - 1])
def test_a_shape_that_does_not_exist_is_the_peers_fault(shape: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"streams = {shape}; known are 0 to 3"):
        opened(Event.PEER_OPENS, shape)
