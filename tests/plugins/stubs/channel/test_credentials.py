"""Credentials that only a network has, and channels to endpoints over a network."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport_stubs
from lucky_transport.errors import ConfigError
from lucky_transport.process import unique_name
from lucky_transport_stubs.words import credentials as credentials_of_calls
from lucky_transport_stubs.words.credentials import remember
from tests.support.waiting import PATIENCE_S

from ..programs.certificates import CERTIFICATE, KEY


def _aio_channel(*arguments: Any, **named: Any) -> None:
    async def make() -> None:
        await lucky_transport_stubs.aio_channel(*arguments, **named).close()

    asyncio.run(make())


CHANNELS: dict[str, Callable[..., Any]] = {
    "channel": lambda *arguments, **named: lucky_transport_stubs.channel(*arguments, **named).close(),
    "aio_channel": _aio_channel,
}
OF_A_NETWORK: dict[str, Callable[[], Any]] = {
    "ALTSChannelCredentials": grpc.alts_channel_credentials,
    "ComputeEngineChannelCredentials": lambda: grpc.compute_engine_channel_credentials(
        grpc.access_token_call_credentials("x")
    ),
}


@pytest.mark.parametrize("kind", OF_A_NETWORK)
@pytest.mark.parametrize("end", CHANNELS)
def test_credentials_of_a_networks_peer_are_refused_by_name(end: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} authenticate a network's peer"):
        CHANNELS[end]("shm://nothing_there", credentials=OF_A_NETWORK[kind]())


@pytest.mark.parametrize("end", CHANNELS)
def test_xds_credentials_are_their_fallback(end: str) -> None:
    local = grpc.local_channel_credentials()
    CHANNELS[end]("shm://nothing_there", credentials=grpc.xds_channel_credentials(local))
    alts = grpc.xds_channel_credentials(grpc.alts_channel_credentials())
    with pytest.raises(ConfigError, match="ALTSChannelCredentials"):
        CHANNELS[end]("shm://nothing_there", credentials=alts)


@pytest.mark.parametrize("end", CHANNELS)
def test_a_channel_to_a_grpc_endpoint_is_a_secure_one_of_grpc(end: str) -> None:
    CHANNELS[end]("grpc://127.0.0.1:1", credentials=grpc.ssl_channel_credentials(CERTIFICATE))


def test_a_call_over_tls_credentials_names_its_service_by_https(secure_target: str) -> None:
    told: list[str] = []

    class Plugin(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            told.append(context.service_url)
            callback((), None)

    local, tls = grpc.local_channel_credentials(), grpc.ssl_channel_credentials(CERTIFICATE)
    options = [("grpc.default_authority", "robot.lab:443")]
    for of_channel in (local, tls):
        credentials = grpc.composite_channel_credentials(of_channel, grpc.metadata_call_credentials(Plugin()))
        channel = lucky_transport_stubs.channel(secure_target, options, credentials=credentials)
        with channel, pytest.raises(grpc.RpcError, match="Method not found"):
            channel.unary_unary("/robot.Arm/Move")(b"")
    assert told == ["://robot.lab:443/robot.Arm", "https://robot.lab/robot.Arm"]


def _calls(channel: grpc.Channel) -> dict[str, Callable[[], Any]]:
    """Calls of each style to a method that is not there; each returns the call that failed."""
    unary, stream = channel.unary_unary("/robot.Arm/Move"), channel.unary_stream("/robot.Arm/Watch")

    def blocking() -> Any:
        with pytest.raises(grpc.RpcError) as caught:
            unary(b"", timeout=PATIENCE_S)
        return caught.value

    return {
        "blocking": blocking,
        "future": lambda: unary.future(b"", timeout=PATIENCE_S),
        "stream": lambda: stream(b"", timeout=PATIENCE_S),
    }


def test_the_plugins_of_many_calls_run_on_few_threads(secure_target: str) -> None:
    threads: list[threading.Thread] = []

    class Plugin(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            threads.append(threading.current_thread())  # kept: a thread that has ended is not taken for the next one
            callback((), None)

    plugin = grpc.metadata_call_credentials(Plugin())
    credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), plugin)
    with lucky_transport_stubs.channel(secure_target, credentials=credentials) as channel:
        for call in _calls(channel).values():
            for _ in range(50):
                assert call().code() is grpc.StatusCode.UNIMPLEMENTED
    assert len(threads) == 150
    assert len(set(threads)) <= 50  # a thread may be busy still when the next call begins


def test_a_plugin_may_exit_once_it_has_given_its_metadata(secure_target: str, caplog: Any) -> None:
    exits = threading.Semaphore(0)

    class Plugin(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            callback((), None)
            exits.release()
            sys.exit(4)

    plugin = grpc.metadata_call_credentials(Plugin())
    credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), plugin)
    with lucky_transport_stubs.channel(secure_target, credentials=credentials) as channel:
        for call in _calls(channel).values():
            assert call().code() is grpc.StatusCode.UNIMPLEMENTED
            assert exits.acquire(timeout=PATIENCE_S)
    assert not caplog.records


def test_access_tokens_need_no_thread(secure_target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [grpc.access_token_call_credentials(text) for text in ("one", "other")]
    both = grpc.composite_channel_credentials(grpc.local_channel_credentials(), *tokens)

    def refuse(task: Any) -> None:
        raise AssertionError("a thread was asked for")

    with lucky_transport_stubs.channel(secure_target, credentials=both) as channel:
        monkeypatch.setattr(credentials_of_calls, "run_on_kept_thread", refuse)
        for call in _calls(channel).values():
            assert call().code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_whose_plugin_never_answers_calls_back_at_its_deadline(secure_target: str) -> None:
    class Plugin(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            """Say nothing."""

    plugin = grpc.metadata_call_credentials(Plugin())
    credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), plugin)
    with lucky_transport_stubs.channel(secure_target, credentials=credentials) as channel:
        told: SimpleQueue[Any] = SimpleQueue()
        future = channel.unary_unary("/robot.Arm/Move").future(b"", timeout=0.05)
        for _ in range(3):
            future.add_done_callback(told.put)
        for _ in range(3):
            assert told.get(timeout=PATIENCE_S).code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.fixture
def secure_target() -> Iterator[str]:
    """A server of nothing at a secure port."""
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    target = f"shm://{unique_name()}"
    server.add_secure_port(target, grpc.local_server_credentials())
    server.start()
    yield target
    server.stop(None)


@pytest.mark.parametrize("known", [False, True])
def test_a_secure_port_says_that_it_asks_for_no_certificate_where_it_might_be_asked_to(
    known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = grpc.ssl_server_credentials([(KEY, CERTIFICATE)])
    if known:
        remember(credentials, "")
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    server.add_secure_port(f"shm://{unique_name()}", credentials)
    said = [record.getMessage() for record in caplog.records if record.name == "lucky_transport"]
    assert ["its credentials ask nothing else of them" in text for text in said] == ([] if known else [True])


def test_a_secure_port_with_credentials_that_demand_a_certificate_is_refused() -> None:
    credentials = grpc.ssl_server_credentials([(KEY, CERTIFICATE)], CERTIFICATE, True)
    remember(credentials, "it requires client certificates")
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    with pytest.raises(RuntimeError, match="Failed to bind to address shm://x: it requires client certificates"):
        server.add_secure_port("shm://x", credentials)
