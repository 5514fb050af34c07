"""The rules of a call and the states of a channel, without I/O; `differential` compares how calls behave with gRPC."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport_stubs.client.call_machine import CallMachine, Connect, FetchMetadata, Finish, Open, Pause
from lucky_transport_stubs.client.prepared import PreparedCall
from lucky_transport_stubs.client.reach import CLOSED, ConnectivityState, State, pauses
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.metadata import WAITS
from lucky_transport_stubs.words.retries import Retries, RetryPolicy
from lucky_transport_stubs.words.status import OK, CallStatus, Code, error_of, status_of

CONNECTION: Any = SimpleNamespace(is_relay=False)
TOO_MUCH = (("key", "v" * 20_000),)


def _machine(attempts: int = 1, fetch: Fetch | None = None) -> CallMachine:
    policy = RetryPolicy(attempts, 1.0, 1.0, 1.0, frozenset({Code.UNAVAILABLE}))
    retries = None if attempts == 1 else Retries(policy, None)
    return CallMachine(PreparedCall("/a/b", None, True, fetch, retries, entries=(("a", "b"),)), status_of)


def _came(error: TransportError | None = None, *, is_ended: bool = True, **fields: Any) -> Any:
    """Return an attempt as the machine sees it."""
    attempt = {"has_started": False, "headers": None, "trailing": (), **fields}
    return SimpleNamespace(error=error, is_done=lambda: is_ended, **attempt)


def test_a_call_connects_and_opens() -> None:
    machine = _machine()
    assert machine.begin(None) == Connect(is_patient=True)
    assert machine.connected(CONNECTION) == Open(CONNECTION, (("a", "b"),))
    assert machine.is_committed
    assert machine.news(_came(PeerDied("it died"))) is None


@pytest.mark.parametrize("is_patient", [False, True])
def test_a_relay_is_told_which_calls_wait(is_patient: bool) -> None:
    relay: Any = SimpleNamespace(is_relay=True)
    prepared = PreparedCall("/t.Test/Method", 1.0, is_patient, None, entries=(("a", "b"),))
    opened = CallMachine(prepared, status_of).begin(relay)
    assert opened == Open(relay, (("a", "b"), WAITS) if is_patient else (("a", "b"),))


def test_a_call_opens_at_once_over_a_connection_that_stands() -> None:
    assert _machine().begin(CONNECTION) == Open(CONNECTION, (("a", "b"),))
    fetch = Fetch((lambda *arguments: None,), "url", "b", True)
    assert _machine(fetch=fetch).begin(CONNECTION) == FetchMetadata(fetch)


def test_credentials_are_asked_for_once_it_is_connected() -> None:
    asks: Callable[..., None] = lambda *arguments: None  # noqa: E731 - only its being callable counts
    fetch = Fetch((asks,), "url", "b", True)
    machine = _machine(fetch=fetch)
    machine.begin(None)
    assert machine.connected(CONNECTION) == FetchMetadata(fetch)
    assert machine.fetched((("c", "d"),)) == Open(CONNECTION, (("a", "b"), ("c", "d")))


def test_credentials_that_are_known_need_not_be_asked_for() -> None:
    machine = _machine(fetch=Fetch(((("c", "d"),),), "url", "b", True))
    machine.begin(None)
    assert machine.connected(CONNECTION) == Open(CONNECTION, (("a", "b"), ("c", "d")))


def test_credentials_end_a_call_by_their_error_and_by_their_size() -> None:
    for found, code in (
        (error_of(Code.UNAUTHENTICATED, "no"), Code.UNAUTHENTICATED),
        (TOO_MUCH, Code.RESOURCE_EXHAUSTED),
    ):
        action = _machine().fetched(found)
        assert isinstance(action, Finish)
        assert action.status.code is code


def test_an_attempt_that_fails_before_a_response_is_followed_by_another() -> None:
    machine = _machine(attempts=2)
    machine.begin(None)
    assert isinstance(machine.failed(PeerDied("it died")), Pause)
    assert isinstance(machine.begin(None), Connect)
    opened = machine.connected(CONNECTION)
    assert isinstance(opened, Open)
    assert ("grpc-previous-rpc-attempts", "1") in opened.metadata
    assert not machine.is_committed
    assert machine.news(_came(is_ended=False)) is None
    finish = machine.news(_came(PeerDied("it died")))
    assert isinstance(finish, Finish)
    assert finish.status.code is Code.UNAVAILABLE


def test_news_of_an_attempt_are_heard_once() -> None:
    machine = _machine(attempts=3)
    machine.begin(None)
    machine.connected(CONNECTION)
    assert isinstance(machine.news(_came(PeerDied("it died"))), Pause)
    assert machine.news(_came(PeerDied("it died"))) is None


@pytest.mark.parametrize("came", [_came(has_started=True), _came(), _came(PeerDied("it died"), has_started=True)])
def test_a_response_commits_the_call(came: Any) -> None:
    machine = _machine(attempts=3)
    machine.begin(None)
    machine.connected(CONNECTION)
    assert machine.news(came) is None
    assert machine.is_committed


def test_a_call_that_is_over_makes_no_attempt() -> None:
    machine = _machine(attempts=3)
    assert machine.end(OK)
    assert not machine.end(CLOSED)
    assert machine.status is OK
    assert isinstance(machine.failed(PeerDied("it died")), Finish)


@pytest.mark.parametrize(
    ("came", "status"),
    [
        (_came(trailing=(("a", "b"),)), CallStatus(Code.OK, trailing=(("a", "b"),))),
        (
            _came(error_of(Code.ABORTED, "no", (("a", "b"),)), trailing=(("a", "b"),)),
            CallStatus(Code.ABORTED, "no", (("a", "b"),)),
        ),
    ],
)
def test_a_call_ends_as_its_attempt_did(came: Any, status: CallStatus) -> None:
    assert _machine().concluded(came) == status


def test_more_metadata_than_a_header_holds_do_not_reach_the_program() -> None:
    for came in (_came(headers=TOO_MUCH, trailing=(("a", "b"),)), _came(trailing=TOO_MUCH)):
        status = _machine().concluded(came)
        assert status.code is Code.RESOURCE_EXHAUSTED
        assert status.trailing == (() if came.trailing is TOO_MUCH else (("a", "b"),))


def test_a_channel_goes_through_grpcs_states() -> None:
    standing, seen = ConnectivityState(None), list[Any]()
    standing.listeners.append(seen.append)
    standing.tries()
    standing.enter(State.TRANSIENT_FAILURE)
    standing.tries()
    standing.enter(State.TRANSIENT_FAILURE)
    standing.enter(State.READY)
    standing.enter(State.IDLE)
    standing.tries()
    standing.enter(State.SHUTDOWN)
    standing.enter(State.IDLE)
    assert seen == [
        State.CONNECTING,
        State.TRANSIENT_FAILURE,
        State.READY,
        State.IDLE,
        State.CONNECTING,
        State.SHUTDOWN,
    ]
    assert standing.is_closed
    assert standing.number == State.SHUTDOWN.value[0]


def test_a_closed_channel_says_so_of_every_call() -> None:
    standing = ConnectivityState(CallStatus(Code.INVALID_ARGUMENT, "a bad config"))
    with pytest.raises(TransportError, match="a bad config"):
        standing.check()
    assert standing.status_of(ClosedError("the transport is closed")).code is Code.UNAVAILABLE
    standing.enter(State.SHUTDOWN)
    with pytest.raises(TransportError, match=CLOSED.details):
        standing.check()
    assert standing.status_of(ClosedError("the transport is closed")) is CLOSED


def test_pauses_grow_up_to_their_limit() -> None:
    assert list(islice(pauses(), 6)) == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.05, 0.05])
