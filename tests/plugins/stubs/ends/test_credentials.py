"""Credentials that only a network has, and channels to endpoints over a network."""

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_stubs.words import credentials as credentials_of_calls
from tests.support.certificates import CERTIFICATE, KEY
from tests.support.waiting import PATIENCE_S

from ..differential.both import Driver
from ..differential.ends import Ends
from ..differential.samples import credentials as plugin
from .conftest import failure

OF_A_NETWORK: dict[str, Callable[[], Any]] = {
    "ALTSChannelCredentials": grpc.alts_channel_credentials,
    "ComputeEngineChannelCredentials": lambda: grpc.compute_engine_channel_credentials(
        grpc.access_token_call_credentials("x")
    ),
}


@pytest.mark.parametrize("kind", OF_A_NETWORK)
async def test_credentials_of_a_networks_peer_are_refused_by_name(driver: Driver, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} authenticate a network's peer"):
        driver.connect(driver.address(), credentials=OF_A_NETWORK[kind]())


async def test_xds_credentials_are_their_fallback(driver: Driver) -> None:
    local = grpc.local_channel_credentials()
    driver.connect(driver.address(), credentials=grpc.xds_channel_credentials(local))
    alts = grpc.xds_channel_credentials(grpc.alts_channel_credentials())
    with pytest.raises(ConfigError, match="ALTSChannelCredentials"):
        driver.connect(driver.address(), credentials=alts)


async def test_a_channel_to_a_grpc_endpoint_is_a_secure_one_of_grpc(driver: Driver) -> None:
    driver.connect("grpc://127.0.0.1:1", credentials=grpc.ssl_channel_credentials(CERTIFICATE))


@pytest.fixture
def channel(ends: Ends) -> Callable[..., Any]:
    """Make channels to a secure port of a server of nothing, by the credentials of their calls."""
    target = ends.serve({}, credentials=grpc.local_server_credentials()).target

    def connect(*of_calls: Any, of_channel: Any = None, options: Any = ()) -> Any:
        of_channel = of_channel or grpc.local_channel_credentials()
        given = grpc.composite_channel_credentials(of_channel, *of_calls)
        return ends.connect(target, options, credentials=given)

    return connect


def _calls(channel: grpc.Channel) -> dict[str, Callable[[], Any]]:
    """Calls of each style to a method that is not there; each returns the call that failed."""
    unary, stream = channel.unary_unary("/robot.Arm/Move"), channel.unary_stream("/robot.Arm/Watch")
    return {
        "blocking": lambda: failure(lambda: unary(b"", timeout=PATIENCE_S)),
        "future": lambda: unary.future(b"", timeout=PATIENCE_S),
        "stream": lambda: stream(b"", timeout=PATIENCE_S),
    }


def test_a_call_over_tls_credentials_names_its_service_by_https(channel: Any) -> None:
    told: list[str] = []

    def tell(context: Any, callback: Any) -> None:
        told.append(context.service_url)
        callback((), None)

    for of_channel in (grpc.local_channel_credentials(), grpc.ssl_channel_credentials(CERTIFICATE)):
        opened = channel(plugin(tell), of_channel=of_channel, options=[("grpc.default_authority", "robot.lab:443")])
        assert _calls(opened)["blocking"]().details() == "Method not found!"
    assert told == ["://robot.lab:443/robot.Arm", "https://robot.lab/robot.Arm"]


def test_the_plugins_of_many_calls_run_on_few_threads(channel: Any) -> None:
    threads: list[threading.Thread] = []

    def note(context: Any, callback: Any) -> None:
        threads.append(threading.current_thread())  # kept: a thread that has ended is not taken for the next one
        callback((), None)

    for call in _calls(channel(plugin(note))).values():
        for _ in range(50):
            assert call().code() is grpc.StatusCode.UNIMPLEMENTED
    assert len(threads) == 150
    assert len(set(threads)) <= 50  # a thread may be busy still when the next call begins


def test_a_plugin_may_exit_once_it_has_given_its_metadata(channel: Any, caplog: Any) -> None:
    exits = threading.Semaphore(0)

    def leave(context: Any, callback: Any) -> None:
        callback((), None)
        exits.release()
        sys.exit(4)

    for call in _calls(channel(plugin(leave))).values():
        assert call().code() is grpc.StatusCode.UNIMPLEMENTED
        assert exits.acquire(timeout=PATIENCE_S)
    assert not caplog.records


def test_access_tokens_need_no_thread(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(task: Any) -> None:
        raise AssertionError("a thread was asked for")

    opened = channel(*(grpc.access_token_call_credentials(text) for text in ("one", "other")))
    monkeypatch.setattr(credentials_of_calls, "run_on_kept_thread", refuse)
    for call in _calls(opened).values():
        assert call().code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_whose_plugin_never_answers_calls_back_at_its_deadline(channel: Any) -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    silent = plugin(lambda context, callback: None)
    future = channel(silent).unary_unary("/robot.Arm/Move").future(b"", timeout=0.05)
    for _ in range(3):
        future.add_done_callback(told.put)
    for _ in range(3):
        assert told.get(timeout=PATIENCE_S).code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("known", [False, True])
def test_a_secure_port_says_that_it_asks_for_no_certificate_where_it_might_be_asked_to(
    ends: Ends, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = grpc.ssl_server_credentials([(KEY, CERTIFICATE)])
    if known:
        credentials_of_calls.remember(credentials, "")
    ends.server().add_secure_port(ends.address(), credentials)
    said = [record.getMessage() for record in caplog.records if record.name == "lucky_transport"]
    assert ["its credentials ask nothing else of them" in text for text in said] == ([] if known else [True])


def test_a_secure_port_with_credentials_that_demand_a_certificate_is_refused(ends: Ends) -> None:
    credentials = grpc.ssl_server_credentials([(KEY, CERTIFICATE)], CERTIFICATE, True)
    credentials_of_calls.remember(credentials, "it requires client certificates")
    with pytest.raises(RuntimeError, match="Failed to bind to address shm://x: it requires client certificates"):
        ends.server().add_secure_port("shm://x", credentials)
