"""A staged channel is a channel: all that a `grpc.Channel` promises, with shadows beside every call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision

grpc = pytest.importorskip("grpc")

import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_stubs.testing import CHANNEL_CASES, channel_service  # noqa: E402

ECHO = "/t.Test/Echo"
Ready = grpc.ChannelConnectivity.READY


@pytest.fixture(scope="module")
def places() -> Iterator[tuple[str, str]]:
    """Target and endpoint of two servers with the service of the cases."""
    servers = grpc.server(ThreadPoolExecutor(16)), lucky_transport_stubs.server(ThreadPoolExecutor(16))
    endpoint = f"shm://{unique_name()}"
    for server in servers:
        server.add_generic_rpc_handlers((channel_service(),))
    port = servers[0].add_insecure_port("127.0.0.1:0")
    servers[1].add_insecure_port(endpoint)
    for server in servers:
        server.start()
    yield f"127.0.0.1:{port}", endpoint
    for server in servers:
        server.stop(None).wait(10)


@pytest.mark.parametrize("case", CHANNEL_CASES)
@pytest.mark.parametrize("decision", [Decision("grpc", "shm"), Decision("shm", "grpc")], ids=["grpc", "shm"])
def test_it_does_what_any_channel_promises(
    pair: Any, places: tuple[str, str], policy: Any, decision: Decision, case: str
) -> None:
    policy.decision = decision
    pair.target, pair.endpoint = places
    with pair.channel() as channel:
        CHANNEL_CASES[case](channel)


@pytest.mark.parametrize("answering", ["grpc", "shm"])
def test_it_stands_as_the_channel_for_unnamed_methods_stands(pair: Any, policy: Any, answering: str) -> None:
    """At the end of a migration there may be no gRPC server left, and before it no engine in shared memory."""
    policy.decision = Decision(answering)
    if answering == "shm":
        pair.target = "127.0.0.1:1"
    else:
        pair.endpoint = f"shm://{unique_name()}"
    with pair.channel() as channel:
        states: list[Any] = []
        grpc.channel_ready_future(channel).result(10)
        channel.subscribe(states.append)
        channel.unsubscribe(states.append)
        channel.unsubscribe(states.append)
        assert channel.unary_unary(ECHO)(b"x") == b"x"


def test_interceptors_stay_outside(channel: Any, policy: Any) -> None:
    seen: Counter[str] = Counter()

    class Changing(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            seen[details.method] += 1
            return continuation(details, request + b"!")

    intercepted = grpc.intercept_channel(channel, Changing())
    assert intercepted.unary_unary(ECHO, _registered_method=True)(b"x") == b"x!"
    assert seen == {ECHO: 1}  # and not again for the shadow
    comparison = policy.only()
    assert comparison.request == b"x!"
    assert list(comparison.shadow.items) == [b"x!"]


def test_stubs_of_all_generations_get_their_callables(channel: Any) -> None:
    oldest = channel.unary_unary(ECHO, request_serializer=str.encode, response_deserializer=bytes.decode)
    newest = channel.unary_unary(ECHO, str.encode, bytes.decode, _registered_method=True)
    assert oldest("x") == newest("x") == "x"
    assert isinstance(oldest, grpc.UnaryUnaryMultiCallable)
    assert isinstance(channel, grpc.Channel)


def test_each_call_is_decided_anew(channel: Any, policy: Any) -> None:
    echo = channel.unary_unary(ECHO)
    for number, transport in enumerate(("grpc", "shm", "grpc"), start=1):
        policy.decision = Decision(transport)
        echo(b"")
        assert policy.wait(number)[-1].primary.transport == transport


def test_many_threads_may_share_it(channel: Any, policy: Any) -> None:
    echo = channel.unary_unary(ECHO)

    def call(number: int) -> bytes:
        policy.decision = Decision(("grpc", "shm")[number % 2])
        return echo(number.to_bytes(2))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(200))) == [number.to_bytes(2) for number in range(200)]
    assert sorted(one.request for one in policy.wait(200)) == [number.to_bytes(2) for number in range(200)]
    assert all(list(one.primary.items) == [one.request] for one in policy.noted)
