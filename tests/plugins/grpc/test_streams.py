"""What is special about streams over gRPC; what every transport promises of them is in test_grpc_contract.py."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.call import Call
from lucky_transport.engine import StreamHandler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, ClosedError, EngineFailed
from lucky_transport.messages import (
    PolicySlotSummary,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
)
from lucky_transport.messages.methods import method
from lucky_transport.serving import Serving
from lucky_transport_grpc import _pb, streams, typed_service
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("forked_engines")

Serve = Callable[..., Serving]

TELEMETRY = method("TelemetryService/StreamTelemetry")
SLOTS = method("AgentService/StreamPolicySlotState")


class Watched(ToyEngine):
    """Notes the calls of its streams, and whether each handler has ended."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ended = threading.Event()
        self.item: Any = TelemetryFrame()
        super().__init__(1)

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {TELEMETRY.name: self._watch, SLOTS.name: self._misanswer}

    def _watch(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        self.calls.append(call)
        try:
            for tick in call.ticks(request.target_fps or 100):
                yield TelemetryFrame(frame_number=tick)
        finally:
            self.ended.set()

    def _misanswer(self, request: Any, call: Call) -> Iterator[Any]:
        yield self.item


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

    class Brief(Watched):
        def _watch(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
            call.on_end(over.set)
            yield TelemetryFrame()

    assert len(list(connect(serve(Brief())).stream(TELEMETRY, StreamTelemetryRequest()))) == 1
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
    engine = Watched()
    engine.item = item
    client = connect(serve(engine))
    with pytest.raises(EngineFailed, match=rf"answer to .*StreamPolicySlotState {text}"):
        next(client.stream(SLOTS, StreamPolicySlotStateRequest()))


def test_stopping_the_server_ends_its_streams(serve: Serve, connect: Any) -> None:
    from lucky_transport.config import Settings
    from lucky_transport.endpoint import Endpoint
    from lucky_transport_grpc.server import GrpcServer

    engine = Watched()
    host = serve(engine).host
    second = GrpcServer(Endpoint.parse("grpc://127.0.0.1:0"), Settings())
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
    monkeypatch.setattr(typed_service, "MAX_STREAMS", 2)
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
    class Skipping(Watched):
        def _watch(self, request: Any, call: Call) -> Iterator[TelemetryFrame]:
            yield TelemetryFrame()
            call.dropped += 7

    stream = connect(serve(Skipping())).stream(TELEMETRY, StreamTelemetryRequest())
    assert len(list(stream)) == 1
    assert stream.dropped == 7


def test_a_reader_that_pauses_finds_the_newest_items(serve: Serve, connect: Any) -> None:
    count = 40 * streams.KEPT
    go_on = threading.Event()

    class Many(Watched):
        def _watch(self, request: Any, call: Call) -> Iterator[TelemetryFrame]:
            for number in range(count):
                yield TelemetryFrame(frame_number=number)
            go_on.set()

    stream = connect(serve(Many())).stream(TELEMETRY, StreamTelemetryRequest())
    assert go_on.wait(PATIENCE_S)
    until(lambda: stream.dropped == count - streams.KEPT)
    assert [frame.frame_number for frame in stream] == list(range(count - streams.KEPT, count))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_neither_reads_nor_ends_its_parents_stream(serve: Serve, connect: Any) -> None:
    engine = Watched()
    stream = connect(serve(engine)).stream(TELEMETRY, StreamTelemetryRequest(100))
    next(stream)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            stream.cancel()
            next(stream)
        except ClosedError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    assert os.read(reader, 1000) == b"this transport belongs to the parent process; connect again after fork()"
    os.close(reader)
    next(stream)
    assert not engine.ended.is_set()
    stream.cancel()
