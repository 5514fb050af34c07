"""gRPC's interoperability cases, with generated stubs on an asyncio channel and a generated asyncio servicer."""

from __future__ import annotations

from typing import Any

from .. import generated
from ..aio_ends import AioEnds
from ..aio_records import attempt, read, state, status, taken
from ..interop_service import INITIAL, TRAILING, aio_servicer, outputs
from ..records import PATIENCE_S, Record, entries
from ..registry import case, each
from .interop import MESSAGES


async def _stub(ends: AioEnds) -> Any:
    """Serve the test service; return its stub."""
    server, address = ends.server(), ends.address()
    generated.services().add_TestServiceServicer_to_server(aio_servicer(), server)
    server.add_insecure_port(address)
    await server.start()
    return generated.services().TestServiceStub(ends.connect(address))


@case
async def empty_unary(ends: AioEnds) -> Record:
    call = (await _stub(ends)).EmptyCall(generated.messages().Empty())
    return {"empty": await call == generated.messages().Empty(), **await status(call)}


@case
async def large_unary(ends: AioEnds) -> Record:
    request = generated.messages().SimpleRequest(response_size=314_159, payload=bytes(271_828))
    return {"size": len((await (await _stub(ends)).UnaryCall(request)).payload)}


@case
async def client_streaming(ends: AioEnds) -> Record:
    request = generated.messages().StreamingInputCallRequest
    call = (await _stub(ends)).StreamingInputCall(request(payload=bytes(size)) for size in (27_182, 8, 1_828, 45_904))
    return {"size": (await call).aggregated_payload_size}


@case
async def server_streaming(ends: AioEnds) -> Record:
    seen = await taken((await _stub(ends)).StreamingOutputCall(outputs(31_415, 9, 2_653, 58_979)))
    return {"sizes": [len(response.payload) for response in seen["items"]], "ended": seen["ended"]}


@case
async def ping_pong(ends: AioEnds) -> Record:
    call = (await _stub(ends)).FullDuplexCall()
    sizes = []
    for request, response in ((27_182, 31_415), (8, 9), (1_828, 2_653), (45_904, 58_979)):
        await call.write(outputs(response, payload=request))
        sizes.append(len((await call.read()).payload))
    await call.done_writing()
    return {"sizes": sizes, "rest": await read(call)}


@case
async def empty_stream(ends: AioEnds) -> Record:
    return await taken((await _stub(ends)).FullDuplexCall(iter(())))


@case
async def cancel_after_begin(ends: AioEnds) -> Record:
    call = (await _stub(ends)).StreamingInputCall()
    return {"cancelling": call.cancel(), "response": await attempt(call), **await status(call), **state(call)}


@case
async def cancel_after_first_response(ends: AioEnds) -> Record:
    call = (await _stub(ends)).FullDuplexCall()
    await call.write(outputs(31_415, payload=27_182))
    seen: Record = {"first": len((await call.read()).payload), "cancelling": call.cancel()}
    return {**seen, "next": await attempt(call.read()), **await status(call)}


@case
async def timeout_on_sleeping_server(ends: AioEnds) -> Record:
    stub = await _stub(ends)
    await stub.EmptyCall(generated.messages().Empty())
    return await attempt(stub.FullDuplexCall(timeout=0.001).read())


@case
async def custom_metadata(ends: AioEnds) -> Record:
    stub = await _stub(ends)
    request = generated.messages().SimpleRequest(response_size=10, payload=bytes(10))
    unary = stub.UnaryCall(request, metadata=(INITIAL, TRAILING))
    duplex = stub.FullDuplexCall(iter((outputs(10),)), metadata=(INITIAL, TRAILING))
    initial = entries(await duplex.initial_metadata())
    sizes = [len(response.payload) async for response in duplex]
    return {"early": initial, "sizes": sizes, "duplex": await status(duplex), "unary": await status(unary)}


@each(message=MESSAGES)
async def status_code_and_message(ends: AioEnds, message: str) -> Record:
    pb, stub = generated.messages(), await _stub(ends)
    wanted = pb.EchoStatus(code=2, message=MESSAGES[message])
    unary = await attempt(stub.UnaryCall(pb.SimpleRequest(response_size=1, response_status=wanted)))
    duplex = stub.FullDuplexCall()
    await duplex.write(pb.StreamingOutputCallRequest(response_status=wanted))
    await duplex.done_writing()
    return {"unary": unary, "duplex": await read(duplex)}


@case
async def unimplemented_method(ends: AioEnds) -> Record:
    return await attempt((await _stub(ends)).UnimplementedCall(generated.messages().Empty(), timeout=PATIENCE_S))
