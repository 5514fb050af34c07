"""The rules of a call, its attempts by a retry policy, and the states of a channel, without I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport_stubs.client.call_machine import CallMachine, Connect, FetchMetadata, Finish, Open, Pause
from lucky_transport_stubs.client.prepared import PreparedCall
from lucky_transport_stubs.client.reach import CLOSED, ConnectivityState, State, pauses
from lucky_transport_stubs.client.requests import StreamedRequests
from lucky_transport_stubs.words import retries as module
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import WAITS
from lucky_transport_stubs.words.retries import Retries, RetryPolicy, RetryThrottle
from lucky_transport_stubs.words.service_config import load_service_config
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


_FAILED = CallStatus(Code.UNAVAILABLE)


def _policy(most: int = 5, initial_s: float = 1.0, longest_s: float = 3.0) -> RetryPolicy:
    return RetryPolicy(most, initial_s, longest_s, 2.0, frozenset({Code.UNAVAILABLE}))


def _delays(retries: Retries, *statuses: CallStatus) -> list[float | None]:
    found: list[float | None] = []
    for status in statuses:
        retries.begins()
        found.append(retries.after(status))
    return found


@pytest.fixture
def _without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.random, "uniform", lambda low, high: (low + high) / 2)


@pytest.mark.usefixtures("_without_jitter")
def test_the_backoff_grows_up_to_its_limit() -> None:
    assert _delays(Retries(_policy(), None), *[_FAILED] * 5) == [1.0, 2.0, 3.0, 3.0, None]


@pytest.mark.usefixtures("_without_jitter")
def test_a_pushback_starts_the_backoff_again() -> None:
    pushed = CallStatus(Code.UNAVAILABLE, trailing=(("grpc-retry-pushback-ms", "250"),))
    assert _delays(Retries(_policy(), None), _FAILED, _FAILED, pushed, _FAILED) == [1.0, 2.0, 0.25, 1.0]


@given(initial_s=st.floats(0.001, 100), failures=st.integers(1, 4))
def test_the_jitter_is_a_fifth(initial_s: float, failures: int) -> None:
    delays = _delays(Retries(_policy(5, initial_s, initial_s), None), *[_FAILED] * failures)
    assert all(delay is not None and 0.79 * initial_s <= delay <= 1.21 * initial_s for delay in delays)


@given(
    most=st.integers(1, 20),
    ratio=st.integers(1, 3000),
    outcomes=st.lists(st.booleans(), max_size=60),
)
def test_there_is_no_further_attempt_with_half_of_the_tokens(most: int, ratio: int, outcomes: list[bool]) -> None:
    throttle, tokens = RetryThrottle(most * 1000, ratio), most * 1000
    for is_well in outcomes:
        tokens = min(tokens + ratio, most * 1000) if is_well else max(tokens - 1000, 0)
        delay = Retries(_policy(), throttle).after(OK if is_well else _FAILED)
        assert (delay is not None) == (not is_well and tokens > most * 500)


@given(st.text())
def test_any_pushback_is_understood_or_ends_the_call(text: str) -> None:
    pushed = CallStatus(Code.UNAVAILABLE, trailing=(("grpc-retry-pushback-ms", text),))
    delay = Retries(_policy(), None).after(pushed)
    assert delay is None or delay == int(text) / 1000


def test_the_number_of_attempts_follows_the_user_agent() -> None:
    retries = Retries(_policy(), None)
    sent = (("user-agent", "me"), ("x", "y"))
    assert retries.metadata(sent) == sent
    retries.after(_FAILED)
    assert retries.metadata(sent) == (sent[0], ("grpc-previous-rpc-attempts", "1"), sent[1])
    assert retries.metadata(()) == (("grpc-previous-rpc-attempts", "1"),)


@given(st.lists(st.binary(max_size=8)), st.lists(st.integers(0, 9), max_size=3), st.integers(0, 40))
def test_each_attempt_reads_all_requests_until_the_call_is_committed(
    requests: list[bytes], stops: list[int], buffer_bytes: int
) -> None:
    retries = Retries(_policy(), None)
    replayed = StreamedRequests(iter(requests), Messages(None, None, None, 1 << 20), retries, buffer_bytes)
    for stop in stops:
        reader = replayed.again()
        retries.begins()
        assert [payload for payload, _ in zip(reader, range(stop), strict=False)] == requests[:stop]
        if retries.is_committed:
            assert sum(map(len, requests[: stop + 1])) > buffer_bytes
            return
        retries.after(_FAILED)
    assert list(replayed.again()) == requests


def test_more_attempts_than_five_are_five_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    policy = {"maxAttempts": 9, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1}
    policy |= {"retryableStatusCodes": ["UNAVAILABLE"]}
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    found = load_service_config(json.dumps(config), (), "shm://any")
    assert [said.retry_policy.max_attempts for said in found.methods.values() if said.retry_policy] == [5]
    assert caplog.messages == ["service config: clamped retryPolicy.maxAttempts at 5"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_FIELDS = ("name", "service", "timeout", "waitForReady", "retryPolicy", "maxAttempts", "retryableStatusCodes")


@given(
    _JSON
    | st.dictionaries(
        st.sampled_from(("methodConfig", "retryThrottling")),
        st.lists(st.dictionaries(st.sampled_from(_FIELDS), _JSON | st.dictionaries(st.sampled_from(_FIELDS), _JSON))),
    )
)
def test_any_json_is_a_config_or_refused(config: Any) -> None:
    found = load_service_config(json.dumps(config), (), "shm://any")
    assert found.refusal is None or found.refusal.code is Code.INVALID_ARGUMENT
    assert found.method("/a/b") is None or isinstance(config, dict)
