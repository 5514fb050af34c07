"""Every state meets every event: allowed as the table says, else refused with the remedy."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError
from lucky_transport.lockstep import TRANSITIONS, Event, Lockstep, State

#: Written down once more, by hand, from the two diagrams in the module's docstring.
EXPECTED = {
    (State.READY, Event.SEND): State.SENT,
    (State.READY, Event.LOST): State.LOST,
    (State.SENT, Event.FRAME): State.READY,
    (State.SENT, Event.REFUSED): State.READY,
    (State.SENT, Event.LOST): State.LOST,
    (State.LOST, Event.LOST): State.LOST,
    (State.IDLE, Event.ACTIONS): State.STEPPING,
    (State.STEPPING, Event.FRAME): State.IDLE,
    (State.STEPPING, Event.REFUSED): State.IDLE,
    **{(state, Event.CLOSE): State.CLOSED for state in State},
}

REFUSALS = {
    (State.READY, Event.FRAME): (LocalProtocolError, "recv() without a send(); call send(actions) first"),
    (State.SENT, Event.SEND): (LocalProtocolError, "send() while a frame is outstanding; call recv() first"),
    (State.LOST, Event.SEND): (PeerDied, "the engine is gone; connect again"),
    (State.LOST, Event.FRAME): (PeerDied, "the engine is gone; connect again"),
    (State.CLOSED, Event.SEND): (ClosedError, "the transport is closed; connect again"),
    (State.CLOSED, Event.FRAME): (ClosedError, "the transport is closed; connect again"),
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_each_state_answers_each_event_as_the_diagram_says(state: State, event: Event) -> None:
    lockstep = Lockstep(state, "toy")
    if (state, event) in EXPECTED:
        lockstep.on(event)
        assert lockstep.state is EXPECTED[state, event]
        return
    kind, text = REFUSALS.get(
        (state, event), (LocalProtocolError, f"{event.value} is not possible in state {state.value}")
    )
    with pytest.raises(TransportError) as refused:
        lockstep.on(event)
    assert (type(refused.value), str(refused.value), refused.value.backend) == (kind, text, "toy")
    assert lockstep.state is state


def test_every_state_stands_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)


@given(st.lists(st.sampled_from(Event)))
def test_no_sequence_of_events_leads_back_from_closed_or_lost(events: list[Event]) -> None:
    for start in (State.CLOSED, State.LOST):
        lockstep = Lockstep(start)
        for event in events:
            try:
                lockstep.on(event)
            except TransportError:
                continue
            assert lockstep.state in (State.CLOSED, State.LOST)


@given(st.lists(st.sampled_from([Event.SEND, Event.FRAME, Event.REFUSED])))
def test_exchanges_never_overlap(events: list[Event]) -> None:
    """However a client calls: between two accepted sends lies exactly one end of an exchange."""
    lockstep, open_exchanges = Lockstep(State.READY), 0
    for event in events:
        try:
            lockstep.on(event)
        except TransportError:
            continue
        open_exchanges += 1 if event is Event.SEND else -1
        assert open_exchanges in (0, 1)
