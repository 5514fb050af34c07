"""A signal handler that raises beside an exchange leaves it under way: `recv` returns its frame; it is done once."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.engine import RESET
from lucky_transport.errors import EngineFailed, LocalProtocolError
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import open_reference
from lucky_transport_grpc import agent_exchange, batch_exchange
from lucky_transport_grpc.agent_exchange import AgentRows
from lucky_transport_grpc.batch_exchange import BatchExchange
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.exchange import CallsUnderWay
from tests.plugins.grpc.conftest import Serve
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, at_once

EXCHANGES = [("batch", 1), ("batch", 3), ("agent", 1), ("agent", 3)]
SCHEMA = method("AgentService/GetAgentSchema")


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a handler raise at the entry of a function, or once it has returned, and never again."""

    def install(owner: Any, name: str, *, after: bool = False) -> None:
        plain, left = getattr(owner, name), [True]

        def struck(*arguments: Any, **named: Any) -> Any:
            strikes = bool(left) and threading.current_thread() is threading.main_thread()
            if strikes and not after:
                left.clear()
                raise KeyboardInterrupt
            result = plain(*arguments, **named)
            if strikes:
                left.clear()
                raise KeyboardInterrupt
            return result

        monkeypatch.setattr(owner, name, struck)

    return install


def exchanges_of(client: Any) -> Iterator[bytes]:
    control = np.full(client.spec.num_envs, RESET, np.uint8)
    while True:
        frame = client.step(client.actions, control)
        yield frame.observations.tobytes() + frame.signals.tobytes()
        control = None


def continue_as(reference: Any, client: Any, begin: Callable[[], object]) -> None:
    """Reset, have `begin` interrupted, receive, and step on: every frame is the reference's."""
    expected, got = exchanges_of(reference), exchanges_of(client)
    assert next(got) == next(expected)
    with pytest.raises(KeyboardInterrupt):
        begin()
    with pytest.raises(LocalProtocolError, match="outstanding"):
        client.send(client.actions)
    frame = client.recv()
    assert frame.observations.tobytes() + frame.signals.tobytes() == next(expected)
    for _ in range(3):
        assert next(got) == next(expected)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("strikes_in", ["begin", "wait", "results", "the frame"])
@pytest.mark.parametrize("way", ["in one call", "in two calls"])
@pytest.mark.parametrize(("service", "num_envs"), EXCHANGES)
def test_a_step_that_is_interrupted_is_done_once_and_received(
    serve: Serve, connect: Any, strike: Any, service: str, num_envs: int, way: str, strikes_in: str, after: bool
) -> None:
    if strikes_in == "the frame":
        owner, name = (BatchExchange, "_frame") if service == "batch" else (AgentRows, "frame")
    elif way == "in one call" and (num_envs == 1 or service == "batch"):
        owner, name = GrpcConnection, "_invoke"  # a blocking call
    else:
        owner, name = (GrpcConnection if strikes_in == "results" else CallsUnderWay), strikes_in
    client = connect(serve(num_envs=num_envs, seed=6), service)

    def begin() -> None:
        strike(owner, name, after=after)
        if way == "in one call":
            client.step(client.actions)
        client.send(client.actions)
        client.recv()

    with open_reference("toy", num_envs, seed=6) as reference:
        continue_as(reference, client, begin)


@pytest.mark.parametrize("service", ["batch", "agent"])
def test_actions_that_were_never_sent_are_not_outstanding(
    serve: Serve, connect: Any, strike: Any, service: str
) -> None:
    client = connect(serve(num_envs=2, seed=6), service)
    with open_reference("toy", 2, seed=6) as reference:
        expected, got = exchanges_of(reference), exchanges_of(client)
        assert next(got) == next(expected)
        strike(batch_exchange if service == "batch" else agent_exchange, "CallsUnderWay")
        with pytest.raises(KeyboardInterrupt):
            client.send(client.actions)
        with pytest.raises(LocalProtocolError, match="without a send"):
            client.recv()
        assert next(got) == next(expected)


@pytest.mark.parametrize("service", ["batch", "agent"])
def test_an_answer_that_grpc_lost_to_a_handler_is_asked_for_again(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    """What is raised while a message is decoded is the failure of its code to grpcio, if it is an Exception."""
    from lucky_transport_grpc import _pb

    path = "/lucky_transport.v1.BatchService/Exchange" if service == "batch" else "/hazel.rpc.AgentService/Step"
    response: Any = _pb.methods()[path].response
    client = connect(serve(num_envs=1, seed=6), service)
    with open_reference("toy", 1, seed=6) as reference:
        expected, got = exchanges_of(reference), exchanges_of(client)
        assert next(got) == next(expected)
        left = [True]

        def decode(message: bytes) -> Any:
            if left:
                left.clear()
                raise TimeoutError("a handler's")
            return response.FromString(message)

        exchange = client._exchange
        name = "_method" if service == "batch" else "_step"
        request = _pb.methods()[path].request
        channel = client._connection.channel
        monkeypatch.setattr(exchange, name, channel.unary_unary(path, request.SerializeToString, decode))
        with pytest.raises(EngineFailed, match="deserializing"):
            client.step(client.actions)
        frame = client.recv()
        assert frame.observations.tobytes() + frame.signals.tobytes() == next(expected)
        assert next(got) == next(expected)


def test_a_lock_that_grpc_left_to_the_interrupted_thread_is_released(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(serve(num_envs=1))
    locks = client._connection._channel_locks
    assert len(locks) == 1

    def interrupted(*_: Any, **__: Any) -> None:
        locks[0].acquire()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client._calls, "_methods", {SCHEMA.name: interrupted})
        with pytest.raises(KeyboardInterrupt):
            client.call(SCHEMA, GetAgentSchemaRequest())
    answers: list[Any] = []
    at_once(lambda: answers.append(client.call(SCHEMA, GetAgentSchemaRequest())))
    assert len(answers) == 1


@pytest.mark.parametrize("cancels", [True, False], ids=["the first is cancelled", "both go on"])
def test_an_exchange_that_is_repeated_while_it_is_under_way_is_done_once(
    serve: Serve, stub: Any, cancels: bool
) -> None:
    steps: list[Any] = []
    entered, release = threading.Event(), threading.Event()

    def held(control: Any) -> None:
        steps.append(control)
        entered.set()
        release.wait(PATIENCE_S)

    engine = ScriptedEngine(on_step=held)
    raw = stub(serve(engine))
    path, actions = "/lucky_transport.v1.BatchService/Exchange", bytes(4 * engine.spec.action.size)
    first = raw.start(path, action_seq=1, actions=actions)
    assert entered.wait(PATIENCE_S)
    if cancels:
        first.cancel()
    second = raw.start(path, action_seq=1, actions=actions)
    release.set()
    answer = second.result(PATIENCE_S)
    assert answer.frame_seq == len(steps) == 1
    if not cancels:
        assert first.result(PATIENCE_S) == answer
    assert raw.call(path, action_seq=2, actions=actions).frame_seq == len(steps) == 2
