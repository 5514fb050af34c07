"""Every state meets every event: allowed as the table says, else refused with the remedy."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError
from lucky_transport.lockstep import TRANSITIONS, Lockstep, LockstepEvent, LockstepState

#: Written down once more, by hand, from the diagram in the module's docstring.
EXPECTED = {
    (LockstepState.READY, LockstepEvent.SEND): LockstepState.SENT,
    (LockstepState.READY, LockstepEvent.LOST): LockstepState.LOST,
    (LockstepState.SENT, LockstepEvent.FRAME): LockstepState.READY,
    (LockstepState.READY, LockstepEvent.SEND_ENVS): LockstepState.ENVS,
    (LockstepState.ENVS, LockstepEvent.SEND_ENVS): LockstepState.ENVS,
    (LockstepState.ENVS, LockstepEvent.LAST_ENV): LockstepState.READY,
    (LockstepState.ENVS, LockstepEvent.LOST): LockstepState.LOST,
    (LockstepState.SENT, LockstepEvent.REFUSED): LockstepState.READY,
    (LockstepState.SENT, LockstepEvent.LOST): LockstepState.LOST,
    (LockstepState.LOST, LockstepEvent.LOST): LockstepState.LOST,
    (LockstepState.CLOSED, LockstepEvent.REFUSED): LockstepState.CLOSED,
    **{(state, LockstepEvent.CLOSE): LockstepState.CLOSED for state in LockstepState},
}

_ACTIONS = (LockstepEvent.SEND, LockstepEvent.FRAME, LockstepEvent.SEND_ENVS, LockstepEvent.LAST_ENV)
REFUSALS = {
    (LockstepState.READY, LockstepEvent.FRAME): (
        LocalProtocolError,
        "recv() without a send(); call send(actions) first",
    ),
    (LockstepState.SENT, LockstepEvent.SEND): (
        LocalProtocolError,
        "send() while a frame is outstanding; call recv() first",
    ),
    (LockstepState.SENT, LockstepEvent.SEND_ENVS): (
        LocalProtocolError,
        "send_envs() while a frame is outstanding; call recv() first",
    ),
    (LockstepState.ENVS, LockstepEvent.SEND): (
        LocalProtocolError,
        "send() while envs are under way; call recv_envs() until none is",
    ),
    (LockstepState.ENVS, LockstepEvent.FRAME): (
        LocalProtocolError,
        "recv() while envs are under way; call recv_envs() until none is",
    ),
    (LockstepState.READY, LockstepEvent.LAST_ENV): (
        LocalProtocolError,
        "recv_envs() with no env under way; call send_envs() first",
    ),
    (LockstepState.SENT, LockstepEvent.LAST_ENV): (
        LocalProtocolError,
        "recv_envs() while a frame is outstanding; call recv() first",
    ),
    **{(LockstepState.LOST, event): (PeerDied, "the engine is gone; connect again") for event in _ACTIONS},
    **{(LockstepState.CLOSED, event): (ClosedError, "the transport is closed; connect again") for event in _ACTIONS},
}


@pytest.mark.parametrize(("state", "event"), list(product(LockstepState, LockstepEvent)))
def test_each_state_answers_each_event_as_the_diagram_says(state: LockstepState, event: LockstepEvent) -> None:
    lockstep = Lockstep(state, "toy")
    if (state, event) in EXPECTED:
        lockstep.on(event)
        assert lockstep.state is EXPECTED[state, event]
        return
    possible = ", ".join(each.value for each in TRANSITIONS[state])
    other = f"{event.value} is not possible in state {state.value!r}; possible: {possible}"
    kind, text = REFUSALS.get((state, event), (LocalProtocolError, other))
    with pytest.raises(TransportError) as refused:
        lockstep.on(event)
    assert (type(refused.value), str(refused.value), refused.value.backend) == (kind, text, "toy")
    assert lockstep.state is state


def test_every_state_stands_in_the_table() -> None:
    assert set(TRANSITIONS) == set(LockstepState)


@given(st.lists(st.sampled_from(LockstepEvent)))
def test_no_sequence_of_events_leads_back_from_closed_or_lost(events: list[LockstepEvent]) -> None:
    for start in (LockstepState.CLOSED, LockstepState.LOST):
        lockstep = Lockstep(start)
        for event in events:
            try:
                lockstep.on(event)
            except TransportError:
                continue
            assert lockstep.state in (LockstepState.CLOSED, LockstepState.LOST)


@given(st.lists(st.sampled_from([LockstepEvent.SEND, LockstepEvent.FRAME, LockstepEvent.REFUSED])))
def test_exchanges_never_overlap(events: list[LockstepEvent]) -> None:
    """However a client calls: between two accepted sends lies exactly one end of an exchange."""
    lockstep, open_exchanges = Lockstep(LockstepState.READY), 0
    for event in events:
        try:
            lockstep.on(event)
        except TransportError:
            continue
        open_exchanges += 1 if event is LockstepEvent.SEND else -1
        assert open_exchanges in (0, 1)
