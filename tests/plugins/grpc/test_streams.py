"""What is special about streams over gRPC; what every transport promises of them is in test_grpc_contract.py.

Interceptors that a process puts around every channel and server change nothing of what our ends do. OpenTelemetry's
instrumentation returns a generator for a stream, which has neither `cancel` nor trailing metadata. The stand-ins
do the same in the two ways there are: a generator that makes the call when its first item is asked for, and an iterator
around a call under way.
"""

import importlib.util
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


import lucky_transport
from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, Cancelled, ClosedError, EngineFailed, NotReachable, PeerTimeout
from lucky_transport.messages import (
    PolicySlotSummary,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
)
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import zeros
from lucky_transport_grpc import services, streams
from tests.plugins.grpc.conftest import Serve
from tests.support.channel_interceptors import Eager, Failing, Lazy, intercept
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, in_a_child, until

pytestmark = pytest.mark.usefixtures("forked_engines")

TELEMETRY = method("TelemetryService/StreamTelemetry")
SLOTS = method("AgentService/StreamPolicySlotState")
GET_SCHEMA = method("AgentService/GetAgentSchema")


class Watched(ScriptedEngine):
    """Its telemetry goes on until its caller goes, and its stream of slots says nothing at all.

    calls: of its streams. ended: whether the handler of one has ended.
    """

    def __init__(self) -> None:
        super().__init__(streams={TELEMETRY.name: self._watch, SLOTS.name: self._watch})
        self.calls: list[Call] = []
        self.ended = threading.Event()

    def _watch(self, request: Any, call: Call) -> Iterator[TelemetryFrame]:
        self.calls.append(call)
        try:
            for tick in call.ticks(getattr(request, "target_fps", 0) or 100):
                if isinstance(request, StreamTelemetryRequest):
                    yield TelemetryFrame(frame_number=tick)
        finally:
            self.ended.set()


def sending(items: Callable[[Call], Iterator[Any]], row: Any = TELEMETRY) -> ScriptedEngine:
    """Return an engine whose stream has these items."""
    return ScriptedEngine(streams={row.name: lambda request, call: items(call)})


def test_a_foreign_client_gets_the_items_and_its_cancel_ends_the_handler(serve: Serve, stub: Any) -> None:
    engine = Watched()
    metadata = (("who", "me"), ("lucky-client", "someone"))
    call = stub(serve(engine)).stream(TELEMETRY.name, metadata, target_fps=500)
    numbers = [next(call).frame_number for _ in range(3)]
    assert numbers == sorted(numbers)
    call.cancel()
    assert engine.ended.wait(PATIENCE_S)
    (seen,) = engine.calls
    assert seen.is_over
    assert seen.caller == "someone"
    assert seen.metadata == (("who", "me"),)


def test_the_call_of_a_stream_is_over_when_its_handler_has_ended(serve: Serve, connect: Any) -> None:
    over = threading.Event()

    def brief(call: Call) -> Iterator[TelemetryFrame]:
        call.on_end(over.set)
        yield TelemetryFrame()

    assert len(list(connect(serve(sending(brief))).stream(TELEMETRY, StreamTelemetryRequest()))) == 1
    assert over.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (TelemetryFrame(), "is TelemetryFrame, expected PolicySlot"),
        (PolicySlotSummary(slot_id="first"), "is no PolicySlotSummary: .*slot_id"),  # type: ignore[arg-type]
        (PolicySlotSummary(name=7), "is no PolicySlotSummary: .*name"),  # type: ignore[arg-type]
    ],
    ids=["another message", "a text for a number", "a number for a text"],
)
def test_what_is_no_item_of_the_stream_is_the_engines_failure(serve: Serve, connect: Any, item: Any, text: str) -> None:
    client = connect(serve(sending(lambda call: iter([item]), SLOTS)))
    with pytest.raises(EngineFailed, match=rf"answer to .*StreamPolicySlotState {text}"):
        next(client.stream(SLOTS, StreamPolicySlotStateRequest()))


def test_stopping_the_server_ends_its_streams(serve: Serve, server: Any, connect: Any) -> None:
    engine = Watched()
    host = serve(engine).host
    second = server()
    client = connect(second.start(host))
    stream = client.stream(TELEMETRY, StreamTelemetryRequest(1))
    next(stream)
    second.stop(grace_s=0.1)
    assert engine.ended.wait(PATIENCE_S)
    with pytest.raises(ConnectionError):
        list(stream)


def test_beyond_the_limit_a_stream_is_refused_and_steps_go_on(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MAX_STREAMS", 2)
    client = connect(serve())
    open_ = [client.stream(TELEMETRY, StreamTelemetryRequest(50)) for _ in range(2)]
    for stream in open_:
        next(stream)
    with pytest.raises(Busy, match="serves 2 streams over gRPC already; end one first"):
        next(client.stream(TELEMETRY, StreamTelemetryRequest(50)))
    assert client.step(zeros(client)).seq == 1
    for stream in open_:
        stream.cancel()


def test_what_the_engine_skipped_is_told_at_the_end(serve: Serve, connect: Any) -> None:
    def skipping(call: Call) -> Iterator[TelemetryFrame]:
        yield TelemetryFrame()
        call.dropped += 7

    stream = connect(serve(sending(skipping))).stream(TELEMETRY, StreamTelemetryRequest())
    assert len(list(stream)) == 1
    assert stream.dropped == 7


def test_a_reader_that_pauses_finds_the_newest_items(serve: Serve, connect: Any) -> None:
    count = 40 * streams.KEPT
    go_on = threading.Event()

    def many(call: Call) -> Iterator[TelemetryFrame]:
        for number in range(count):
            yield TelemetryFrame(frame_number=number)
        go_on.set()

    stream = connect(serve(sending(many))).stream(TELEMETRY, StreamTelemetryRequest())
    assert go_on.wait(PATIENCE_S)
    until(lambda: stream.dropped == count - streams.KEPT)
    assert [frame.frame_number for frame in stream] == list(range(count - streams.KEPT, count))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_neither_reads_nor_ends_its_parents_stream(serve: Serve, connect: Any) -> None:
    engine = Watched()
    stream = connect(serve(engine)).stream(TELEMETRY, StreamTelemetryRequest(100))
    next(stream)

    def use() -> None:
        stream.cancel()
        with pytest.raises(
            ClosedError, match=r"^this transport belongs to the parent process; connect again after fork"
        ):
            next(stream)

    assert in_a_child(use)
    next(stream)
    assert not engine.ended.is_set()
    stream.cancel()


# --- interceptors ---


@pytest.fixture(params=["lazy", "eager", "opentelemetry"])
def intercepted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Every channel of this process has an interceptor."""
    if request.param != "opentelemetry":
        intercept(monkeypatch, Lazy() if request.param == "lazy" else Eager())
        yield
        return
    if importlib.util.find_spec("opentelemetry.instrumentation.grpc") is None:
        pytest.skip("opentelemetry-instrumentation-grpc is not installed")
    from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer

    instrumentors = (GrpcInstrumentorClient(), GrpcInstrumentorServer())
    for instrumentor in instrumentors:
        instrumentor.instrument()
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@pytest.mark.usefixtures("intercepted")
@pytest.mark.parametrize("service", ["batch", "agent"])
def test_an_engine_is_stepped_called_and_left(serve: Serve, connect: Any, service: str) -> None:
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
def test_a_stream_that_is_cancelled_while_it_is_read_ends_on_both_sides(serve: Serve, connect: Any, kind: Any) -> None:
    engine = Watched()
    stream = connect(serve(engine)).stream(kind, kind.request())
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(list[Any], stream)
        until(lambda: engine.calls)
        stream.cancel()
        with pytest.raises(Cancelled):
            reading.result(PATIENCE_S)
    assert engine.ended.wait(PATIENCE_S)
    assert len(engine.calls) == 1  # no second call was made in order to be able to end it


@pytest.mark.usefixtures("intercepted")
@pytest.mark.parametrize("legacy", [False, True], ids=["", "legacy services alone"])
@pytest.mark.parametrize("end", ["cancel", "drop", "close"])
def test_a_stream_that_is_left_ends_beside_steps_without_a_word(
    serve: Serve, connect: Any, caplog: pytest.LogCaptureFixture, end: str, legacy: bool
) -> None:
    caplog.set_level(logging.ERROR)
    engine = Watched()
    transport = connect(serve(engine, legacy=legacy))
    transport.step(zeros(transport), np.ones(1, np.uint8))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream) is not None
    if end == "cancel":
        stream.cancel()
    elif end == "close":
        transport.close()
        with pytest.raises(ClosedError):
            list(stream)
    del stream
    assert engine.ended.wait(PATIENCE_S)
    if end != "close":
        assert transport.step(zeros(transport)).observations.shape[0] == 1
        transport.close()
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.usefixtures("intercepted")
def test_a_stream_reaches_its_deadline(serve: Serve, connect: Any) -> None:
    engine = Watched()
    with pytest.raises(PeerTimeout):
        next(connect(serve(engine)).stream(SLOTS, SLOTS.request(), Deadline(0.2)))
    assert engine.ended.wait(PATIENCE_S)


@pytest.mark.usefixtures("intercepted")
def test_no_engine_is_told_in_time(connect: Any) -> None:
    with pytest.raises(NotReachable):
        lucky_transport.connect("grpc://127.0.0.1:1", connect_timeout_s=0.5)


_CURRENT: ContextVar[str] = ContextVar("span", default="none")


class _Spanning(Lazy):
    """Makes its span current for as long as a stream goes on."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        token = _CURRENT.set("stream")
        yield from continuation(client_call_details, request)
        _CURRENT.reset(token)


def test_what_a_stream_makes_current_is_not_current_for_its_caller(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve(num_envs=1)
    intercept(monkeypatch, _Spanning())
    connect(serving)  # its Attach goes on
    assert _CURRENT.get() == "none"


class _Refusing(Lazy):
    """Raises an error of its own for a stream of telemetry, after the items that came before the third."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        for number, item in enumerate(continuation(client_call_details, request)):
            if client_call_details.method == TELEMETRY.name and number == 2:
                raise LookupError("the proxy has no more")
            yield item


def test_an_interceptor_ends_a_stream_with_an_error_of_its_own(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve(num_envs=1)
    intercept(monkeypatch, _Refusing())
    stream = connect(serving).stream(TELEMETRY, TELEMETRY.request(target_fps=500))
    assert len([next(stream) for _ in range(2)]) == 2
    for _ in range(2):
        with pytest.raises(LookupError, match="the proxy has no more"):
            next(stream)


def test_an_interceptors_error_is_told_as_it_is(serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve(num_envs=1)
    intercept(monkeypatch, Failing())
    with pytest.raises(lucky_transport.TransportError, match="the proxy says no"):
        connect(serving)
