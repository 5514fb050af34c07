"""What is special about streams over gRPC; what every transport promises of them is in test_grpc_contract.py."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.call import Call
from lucky_transport.errors import Busy, ClosedError, EngineFailed
from lucky_transport.messages import (
    PolicySlotSummary,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
)
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from lucky_transport_grpc import _pb, services, streams
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, in_a_child, until

pytestmark = pytest.mark.usefixtures("forked_engines")

Serve = Callable[..., Serving]

TELEMETRY = method("TelemetryService/StreamTelemetry")
SLOTS = method("AgentService/StreamPolicySlotState")


class Watched(ScriptedEngine):
    """Notes the calls of its telemetry, and whether each handler has ended."""

    def __init__(self) -> None:
        super().__init__(streams={TELEMETRY.name: self._watch})
        self.calls: list[Call] = []
        self.ended = threading.Event()

    def _watch(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        self.calls.append(call)
        try:
            for tick in call.ticks(request.target_fps or 100):
                yield TelemetryFrame(frame_number=tick)
        finally:
            self.ended.set()


def sending(items: Callable[[Call], Iterator[Any]], row: Any = TELEMETRY) -> ScriptedEngine:
    """Return an engine whose stream has these items."""
    return ScriptedEngine(streams={row.name: lambda request, call: items(call)})


def _start(raw: Any, path: str, metadata: Any = (), **fields: Any) -> Any:
    """Return a stream as a client that knows the protocol and nothing else sees it."""
    found = _pb.methods()[path]
    stream = raw.channel.unary_stream(path, found.request.SerializeToString, found.response.FromString)
    return stream(found.request(**fields), metadata=metadata, timeout=30)


def test_a_foreign_client_gets_the_items_and_its_cancel_ends_the_handler(serve: Serve, stub: Any) -> None:
    engine = Watched()
    call = _start(stub(serve(engine)), TELEMETRY.name, (("who", "me"), ("lucky-client", "someone")), target_fps=500)
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
    serve: Serve, connect: Any, zeros: Any, monkeypatch: pytest.MonkeyPatch
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
