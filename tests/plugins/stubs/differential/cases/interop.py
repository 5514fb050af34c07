"""gRPC's interoperability cases, with generated stubs and a generated servicer; plus those of grpc-java."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

from .. import generated
from ..ends import Ends
from ..interop_service import INITIAL, TRAILING, outputs, servicer
from ..records import PATIENCE_S, Record, attempt, entries, happened, status, taken
from ..registry import case, each

MESSAGES = {
    "plain": "test status message",
    "special": "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n",
}
LIMIT = 4 * 1024 * 1024


def _serve(ends: Ends) -> tuple[Any, Any]:
    """Serve the test service; return the server and a channel to it."""
    server, address = ends.server(), ends.address()
    generated.services().add_TestServiceServicer_to_server(servicer(), server)
    server.add_insecure_port(address)
    server.start()
    return server, ends.connect(address)


def _stub(ends: Ends) -> Any:
    """Serve the test service; return its stub."""
    return generated.services().TestServiceStub(_serve(ends)[1])


def _sizes(call: Any) -> Record:
    seen = taken(call)
    return {"sizes": [len(response.payload) for response in seen["items"]], "ended": seen["ended"]}


class _Conversation:
    """Requests of a bidirectional call, each given when the one before has been answered."""

    def __init__(self, method: Any, **options: Any) -> None:
        self._said = threading.Semaphore(0)
        self._requests: list[Any] = []
        self.call = method(self._ask(), **options)

    def _ask(self) -> Iterator[Any]:
        for number in itertools.count():
            if not self._said.acquire(timeout=PATIENCE_S) or number == len(self._requests):
                return
            yield self._requests[number]

    def say(self, request: Any) -> None:
        """Send a request."""
        self._requests.append(request)
        self._said.release()

    def close(self) -> None:
        """End the requests."""
        self._said.release()


@case
def empty_unary(ends: Ends) -> Record:
    response, call = _stub(ends).EmptyCall.with_call(generated.messages().Empty())
    return {"empty": response == generated.messages().Empty(), **status(call)}


@case
def large_unary(ends: Ends) -> Record:
    request = generated.messages().SimpleRequest(response_size=314_159, payload=bytes(271_828))
    return {"size": len(_stub(ends).UnaryCall(request).payload)}


@case
def client_streaming(ends: Ends) -> Record:
    sizes = (27_182, 8, 1_828, 45_904)
    request = generated.messages().StreamingInputCallRequest
    response = _stub(ends).StreamingInputCall(request(payload=bytes(size)) for size in sizes)
    return {"size": response.aggregated_payload_size}


@case
def server_streaming(ends: Ends) -> Record:
    return _sizes(_stub(ends).StreamingOutputCall(outputs(31_415, 9, 2_653, 58_979)))


@case
def ping_pong(ends: Ends) -> Record:
    conversation = _Conversation(_stub(ends).FullDuplexCall)
    sizes = []
    for request, response in ((27_182, 31_415), (8, 9), (1_828, 2_653), (45_904, 58_979)):
        conversation.say(outputs(response, payload=request))
        sizes.append(len(next(conversation.call).payload))
    conversation.close()
    return {"sizes": sizes, "rest": taken(conversation.call)}


@case
def half_duplex(ends: Ends) -> Record:
    requests = (outputs(response) for response in (31_415, 9, 2_653, 58_979))
    return _sizes(_stub(ends).HalfDuplexCall(requests))


@case
def empty_stream(ends: Ends) -> Record:
    return taken(_stub(ends).FullDuplexCall(iter(())))


@case
def cancel_after_begin(ends: Ends) -> Record:
    gate = ends.gate()

    def requests() -> Iterator[Any]:
        gate.wait(PATIENCE_S)
        yield generated.messages().StreamingInputCallRequest()

    future = _stub(ends).StreamingInputCall.future(requests())
    seen = {"cancel": future.cancel(), "cancelled": future.cancelled(), "code": future.code().name}
    return {**seen, "result": attempt(future.result)}


@case
def cancel_after_first_response(ends: Ends) -> Record:
    conversation = _Conversation(_stub(ends).FullDuplexCall)
    conversation.say(outputs(31_415, payload=27_182))
    first = len(next(conversation.call).payload)
    seen = {"first": first, "cancel": conversation.call.cancel(), "next": attempt(next, conversation.call)}
    conversation.close()
    return {**seen, "code": conversation.call.code().name}


@case
def timeout_on_sleeping_server(ends: Ends) -> Record:
    stub = _stub(ends)
    stub.EmptyCall(generated.messages().Empty())
    conversation = _Conversation(stub.FullDuplexCall, timeout=0.001)
    conversation.say(outputs(payload=27_182))
    time.sleep(0.01)
    seen = attempt(next, conversation.call)
    conversation.close()
    return seen


@case
def custom_metadata(ends: Ends) -> Record:
    stub = _stub(ends)
    request = generated.messages().SimpleRequest(response_size=10, payload=bytes(10))
    _, unary = stub.UnaryCall.with_call(request, metadata=(INITIAL, TRAILING))
    duplex = stub.FullDuplexCall(iter((outputs(10),)), metadata=(INITIAL, TRAILING))
    initial = entries(duplex.initial_metadata())
    return {"unary": status(unary), "early": initial, "sizes": _sizes(duplex), "duplex": status(duplex)}


@each(message=MESSAGES)
def status_code_and_message(ends: Ends, message: str) -> Record:
    pb, stub = generated.messages(), _stub(ends)
    wanted = pb.EchoStatus(code=2, message=MESSAGES[message])
    unary = attempt(stub.UnaryCall, pb.SimpleRequest(response_size=1, response_status=wanted))
    duplex = taken(stub.FullDuplexCall(iter((pb.StreamingOutputCallRequest(response_status=wanted),))))
    return {"unary": unary, "duplex": duplex}


@case
def unimplemented_method(ends: Ends) -> Record:
    return attempt(_stub(ends).UnimplementedCall, generated.messages().Empty())


@case
def unimplemented_service(ends: Ends) -> Record:
    stub = generated.services().UnimplementedServiceStub(_serve(ends)[1])
    return attempt(stub.UnimplementedCall, generated.messages().Empty())


@case
def deadline_in_past(ends: Ends) -> Record:
    stub = _stub(ends)
    stub.EmptyCall(generated.messages().Empty())
    return attempt(stub.EmptyCall, generated.messages().Empty(), timeout=-10)


@each(over=(0, 1), side=("server", "client"))
def max_inbound_size(ends: Ends, over: int, side: str) -> Record:
    pb, stub = generated.messages(), _stub(ends)
    limit = LIMIT + over
    overhead = len(pb.SimpleResponse(payload=bytes(limit)).SerializeToString()) - limit
    if side == "client":
        seen = attempt(stub.UnaryCall, pb.SimpleRequest(response_size=limit - overhead))
    else:
        seen = attempt(stub.StreamingInputCall, iter((pb.StreamingInputCallRequest(payload=bytes(limit - overhead)),)))
    return {"raised": seen["raised"]} if "raised" in seen else {"size": seen["value"].ByteSize()}


@case
def very_large_request_and_response(ends: Ends) -> Record:
    request = generated.messages().SimpleRequest(response_size=LIMIT - 100, payload=bytes(LIMIT - 100))
    return {"size": len(_stub(ends).UnaryCall(request, timeout=PATIENCE_S).payload)}


@case
def server_streaming_is_flow_controlled(ends: Ends) -> Record:
    call = _stub(ends).StreamingOutputCall(outputs(100_000, 100_001))
    first = len(next(call).payload)
    time.sleep(0.05)
    return {"first": first, "rest": _sizes(call)}


@case
def graceful_shutdown(ends: Ends) -> Record:
    server, channel = _serve(ends)
    conversation = _Conversation(generated.services().TestServiceStub(channel).FullDuplexCall)
    conversation.say(outputs(3))
    first = len(next(conversation.call).payload)
    stopped = server.stop(PATIENCE_S)
    conversation.say(outputs(1))
    second = len(next(conversation.call).payload)
    conversation.close()
    return {"first": first, "second": second, "rest": taken(conversation.call), "stopped": happened(stopped)}


@case
def a_request_of_another_message(ends: Ends) -> Record:
    return attempt(_stub(ends).UnaryCall, generated.messages().Empty(), timeout=PATIENCE_S)


@case
def a_request_that_is_no_message_at_all(ends: Ends) -> Record:
    return attempt(_stub(ends).UnaryCall, "text", timeout=PATIENCE_S)
