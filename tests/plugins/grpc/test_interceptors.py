"""Interceptors that a process puts around every channel and server: they change nothing of what our ends do.

OpenTelemetry's instrumentation returns a generator for a stream, which has neither `cancel` nor trailing metadata. The
stand-ins here do the same in the two ways there are: a generator that makes the call when its first item is asked for,
and an iterator around a call under way.
"""

import importlib.util
import itertools
import logging
import threading
from collections.abc import Generator, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport
from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, ClosedError, NotReachable, PeerTimeout
from lucky_transport.messages import StreamTelemetryRequest, TelemetryFrame
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until

TELEMETRY = method("TelemetryService/StreamTelemetry")
SLOTS = method("AgentService/StreamPolicySlotState")
GET_SCHEMA = method("AgentService/GetAgentSchema")


class _Lazy(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns a generator for a stream, as OpenTelemetry does: the call is made when its first item is asked for."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        yield from continuation(client_call_details, request)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        yield from continuation(client_call_details, request_iterator)


class _Eager(_Lazy):
    """Returns an iterator around a call that is under way; it has no `close` either."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request_iterator))


@pytest.fixture(params=["none", "lazy", "eager", "opentelemetry"])
def intercepted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Every channel of this process has an interceptor, or none."""
    if request.param == "none":
        yield
        return
    if request.param == "opentelemetry":
        if importlib.util.find_spec("opentelemetry.instrumentation.grpc") is None:
            pytest.skip("opentelemetry-instrumentation-grpc is not installed")
        from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer

        instrumentors = (GrpcInstrumentorClient(), GrpcInstrumentorServer())
        for instrumentor in instrumentors:
            instrumentor.instrument()
        yield
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        return
    _intercept(monkeypatch, _Lazy() if request.param == "lazy" else _Eager())
    yield


def _intercept(monkeypatch: pytest.MonkeyPatch, interceptor: Any) -> None:
    plain = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **n: grpc.intercept_channel(plain(*a, **n), interceptor))


class _Endless(ScriptedEngine):
    """Its telemetry goes on until its caller goes; the stream of slots says nothing at all."""

    def __init__(self) -> None:
        super().__init__(streams={TELEMETRY.name: self._ticks, SLOTS.name: self._ticks})
        self.under_way: list[Call] = []
        self.ended = threading.Semaphore(0)

    def _ticks(self, request: Any, call: Call) -> Iterator[Any]:
        self.under_way.append(call)
        try:
            for tick in call.ticks(getattr(request, "target_fps", 0) or 100):
                if isinstance(request, StreamTelemetryRequest):
                    yield TelemetryFrame(frame_number=tick)
        finally:
            self.ended.release()


@pytest.mark.usefixtures("intercepted")
@pytest.mark.parametrize("service", ["batch", "agent"])
def test_an_engine_is_stepped_called_and_left(serve: Any, connect: Any, zeros: Any, service: str) -> None:
    serving = serve(num_envs=2)
    for _ in range(2):
        with connect(serving, service) as transport:
            transport.step(zeros(transport), np.ones(2, np.uint8))
            assert transport.step(zeros(transport)).observations.shape[0] == 2
            transport.send(zeros(transport))
            assert transport.recv().observations.shape[0] == 2
            assert transport.call(GET_SCHEMA, GET_SCHEMA.request()).schema is not None
            begun = transport.begin(GET_SCHEMA, GET_SCHEMA.request())
            assert begun.result().schema is not None
        until(lambda: not serving.host.driver)


@pytest.mark.usefixtures("intercepted")
@pytest.mark.parametrize("kind", [TELEMETRY, SLOTS], ids=["latest", "silent"])
def test_a_stream_that_is_cancelled_ends_on_both_sides(serve: Any, connect: Any, kind: Any) -> None:
    engine = _Endless()
    transport = connect(serve(engine))
    stream = transport.stream(kind, kind.request())
    outcome: list[BaseException] = []

    def read() -> None:
        try:
            for _ in stream:
                pass
        except BaseException as error:
            outcome.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: engine.under_way)
    stream.cancel()
    reader.join(PATIENCE_S)
    assert [type(error) for error in outcome] == [Cancelled]
    assert engine.ended.acquire(timeout=PATIENCE_S)
    assert len(engine.under_way) == 1  # no second call was made in order to be able to end it


@pytest.mark.usefixtures("intercepted")
def test_a_stream_that_is_dropped_ends_and_its_connection_goes_on(serve: Any, connect: Any, zeros: Any) -> None:
    engine = _Endless()
    transport = connect(serve(engine))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream) is not None
    del stream
    assert engine.ended.acquire(timeout=PATIENCE_S)
    assert transport.step(zeros(transport)).observations.shape[0] == 1


@pytest.mark.usefixtures("intercepted")
def test_a_stream_reaches_its_deadline(serve: Any, connect: Any) -> None:
    engine = _Endless()
    transport = connect(serve(engine))
    with pytest.raises(PeerTimeout):
        next(transport.stream(SLOTS, SLOTS.request(), Deadline(0.2)))
    assert engine.ended.acquire(timeout=PATIENCE_S)


@pytest.mark.usefixtures("intercepted")
def test_closing_the_connection_ends_its_streams(serve: Any, connect: Any) -> None:
    engine = _Endless()
    transport = connect(serve(engine))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream) is not None
    transport.close()
    with pytest.raises(ClosedError):
        for _ in stream:
            pass
    assert engine.ended.acquire(timeout=PATIENCE_S)


@pytest.mark.usefixtures("intercepted")
def test_an_engine_without_a_batch_service_is_stepped_and_streams(serve: Any, connect: Any, zeros: Any) -> None:
    engine = _Endless()
    transport = connect(serve(engine, legacy=True))
    transport.step(zeros(transport), np.ones(1, np.uint8))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream) is not None
    stream.cancel()
    assert engine.ended.acquire(timeout=PATIENCE_S)


@pytest.mark.usefixtures("intercepted")
def test_no_engine_is_told_in_time(connect: Any) -> None:
    with pytest.raises(NotReachable):
        lucky_transport.connect("grpc://127.0.0.1:1", connect_timeout_s=0.5)


@pytest.mark.usefixtures("intercepted")
def test_nothing_is_logged_as_an_error(serve: Any, connect: Any, zeros: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    transport = connect(serve(_Endless()))
    transport.step(zeros(transport))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    next(stream)
    stream.cancel()
    transport.close()
    assert [record.getMessage() for record in caplog.records] == []


_CURRENT: ContextVar[str] = ContextVar("span", default="none")


class _Spanning(_Lazy):
    """Makes its span current for as long as a stream goes on."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        token = _CURRENT.set("stream")
        yield from continuation(client_call_details, request)
        _CURRENT.reset(token)


def test_what_a_stream_makes_current_is_not_current_for_its_caller(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving: Serving = serve(num_envs=1)
    _intercept(monkeypatch, _Spanning())
    connect(serving)  # its Attach goes on
    assert _CURRENT.get() == "none"


class _Refusing(_Lazy):
    """Raises an error of its own for a stream of telemetry, after the items that came before the third."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        for number, item in enumerate(continuation(client_call_details, request)):
            if client_call_details.method == TELEMETRY.name and number == 2:
                raise LookupError("the proxy has no more")
            yield item


def test_an_interceptor_ends_a_stream_with_an_error_of_its_own(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving: Serving = serve(num_envs=1)
    _intercept(monkeypatch, _Refusing())
    stream = connect(serving).stream(TELEMETRY, TELEMETRY.request(target_fps=500))
    assert len([next(stream) for _ in range(2)]) == 2
    for _ in range(2):
        with pytest.raises(LookupError, match="the proxy has no more"):
            next(stream)


class _Failing(_Lazy):
    """Fails whatever it is asked for, in gRPC's class but without anything that a call has."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        raise grpc.RpcError("the proxy says no")


def test_an_error_of_an_interceptor_is_told_as_it_is(serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serving: Serving = serve(num_envs=1)
    _intercept(monkeypatch, _Failing())
    with pytest.raises(lucky_transport.TransportError, match="the proxy says no"):
        connect(serving)
