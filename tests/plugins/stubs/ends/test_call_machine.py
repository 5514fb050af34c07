"""The rules of a call, its attempts by a retry policy, and the states of a channel, without I/O."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import PeerDied
from lucky_transport_stubs.client.call_machine import CallMachine, Finish, Open, Pause
from lucky_transport_stubs.client.prepared import PreparedCall
from lucky_transport_stubs.client.reach import CLOSED, ConnectivityState, State
from lucky_transport_stubs.client.requests import StreamedRequests
from lucky_transport_stubs.words import retries as module
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.retries import Retries, RetryPolicy, RetryThrottle
from lucky_transport_stubs.words.service_config import load_service_config
from lucky_transport_stubs.words.status import OK, CallStatus, Code, status_of

CONNECTION: Any = SimpleNamespace(is_relay=False)


def _machine() -> CallMachine:
    return CallMachine(PreparedCall("/a/b", None, True, None, Retries(_policy(), None)), status_of)


def test_credentials_that_are_known_are_not_asked_for_and_count_as_metadata() -> None:
    def machine(*known: Any) -> CallMachine:
        return CallMachine(PreparedCall("/a/b", None, True, Fetch((known,), "url", "b", True)), status_of)

    assert machine(("c", "d")).begin(CONNECTION) == Open(CONNECTION, (("c", "d"),))
    refused = machine(("key", "v" * 20_000)).begin(CONNECTION)
    assert isinstance(refused, Finish)
    assert refused.status.code is Code.RESOURCE_EXHAUSTED


def test_news_of_an_attempt_are_heard_once() -> None:
    ended: Any = SimpleNamespace(
        error=PeerDied("it died"), is_done=lambda: True, has_started=False, headers=None, trailing=()
    )
    machine = _machine()
    machine.begin(None)
    machine.connected(CONNECTION)
    assert isinstance(machine.news(ended), Pause)
    assert machine.news(ended) is None


def test_a_call_that_is_over_makes_no_attempt() -> None:
    machine = _machine()
    assert machine.end(OK)
    assert not machine.end(CLOSED)
    assert machine.status is OK
    assert isinstance(machine.failed(PeerDied("it died")), Finish)


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


@given(most=st.integers(1, 20), ratio=st.integers(1, 3000), outcomes=st.lists(st.booleans(), max_size=60))
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
