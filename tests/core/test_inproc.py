"""The transport without a wire keeps the contract; what calls and exchanges of a client may do in each state."""

from __future__ import annotations

import itertools
from concurrent.futures import CancelledError, Future
from itertools import product
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError
from lucky_transport.futures import completed, on_cancel, settle
from lucky_transport.lockstep import TRANSITIONS, Lockstep, LockstepEvent, LockstepState
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities
from tests.support.interrupted_moments import interrupted_at


class TestInproc(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, async_envs=True)
    endpoint = "inproc://{name}"
    has_deadlines = False  # the engine runs in the client's own thread


def test_an_engine_without_a_name_gets_one() -> None:
    with api.serve("toy", "inproc:") as serving:
        assert str(serving.endpoints[0]).startswith("inproc://engine_")
        api.open_transport(serving.endpoints[0]).close()


def test_frames_are_views_of_the_engines_own_memory() -> None:
    with api.serve("toy", "inproc://views") as serving, api.open_transport("inproc://views") as client:
        assert client.capabilities.zero_copy
        frame = client.step(client.actions)
        shown = frame.observations.copy()
        client.step(client.actions)
        assert frame.observations.tobytes() != shown.tobytes()
        assert serving.host.driver.startswith("inproc client of pid")


def test_an_interrupted_close_is_made_by_the_next_one() -> None:
    with api.serve("toy", "inproc://left") as serving:
        for moment in itertools.count():
            client = api.open_transport("inproc://left")
            client.step(client.actions)
            is_interrupted = interrupted_at(moment, client.close)
            client.close()
            assert not serving.host.driver
            if not is_interrupted:
                break


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


def test_a_completed_call_has_its_result_or_error() -> None:
    assert completed(lambda: 5).result(0) == 5

    def fail() -> None:
        raise PeerDied("gone")

    future = completed(fail)
    with pytest.raises(PeerDied, match="gone"):
        future.result(0)
    assert not future.cancel()


def test_a_cancelled_future_tells_the_engine_once_and_makes_no_call() -> None:
    future: Future[Any] = Future()
    said: list[str] = []
    on_cancel(future, lambda: said.append("cancel"))
    assert future.cancel()
    assert future.cancel()
    settle(future, lambda: said.append("call"))
    assert said == ["cancel"]
    with pytest.raises(CancelledError):
        future.result(0)


def test_a_future_that_ended_well_is_not_cancelled_any_more() -> None:
    future: Future[Any] = Future()
    said: list[str] = []
    on_cancel(future, lambda: said.append("cancel"))
    settle(future, lambda: 5)
    assert not future.cancel()
    assert (future.result(0), said) == (5, [])
