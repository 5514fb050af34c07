"""farm-ng's robot services: its EventService of asyncio, and its EventClient that subscribes and asks."""

import asyncio
import threading
from contextlib import contextmanager

import grpc
from farm_ng.core.event_client import EventClient
from farm_ng.core.event_service import EventServiceGrpc
from farm_ng.core.event_service_pb2 import EventServiceConfig, SubscribeRequest
from farm_ng.core.uri_pb2 import Uri
from google.protobuf.wrappers_pb2 import Int32Value, StringValue


@contextmanager
def server(port):
    """Serve a robot that says how far it has moved."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def serve():
        service = EventServiceGrpc(grpc.aio.server(), EventServiceConfig(name="robot", port=port, log_level=40))

        async def move(event, message):
            if event.uri.path == "/fail":
                raise ValueError("no such motor")
            return Int32Value(value=message.value * 2)

        service.add_request_reply_handler(move)
        for number in range(3):
            await service.publish(f"/joint{number}", StringValue(value=f"at {number}"), latch=True)
        serving = asyncio.ensure_future(service.serve())
        await asyncio.sleep(0)
        return serving

    serving = asyncio.run_coroutine_threadsafe(serve(), loop).result(60)
    yield
    loop.call_soon_threadsafe(serving.cancel)


@contextmanager
def client(port):
    """Ask, and read what the robot said last."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    asking = EventClient(EventServiceConfig(name="robot", port=port, host="127.0.0.1", log_level=40))

    async def move(value=1, path="/move"):
        try:
            reply = await asking.request_reply(path, Int32Value(value=value), decode=True)
            return getattr(reply, "value", None)
        except grpc.RpcError as error:
            return [error.code().name, error.details()]

    async def ten():
        return await asyncio.gather(*(move(number) for number in range(10)))

    async def last():
        seen = []
        async for event, message in asking.subscribe(SubscribeRequest(uri=Uri(path="*"), every_n=1)):
            if event.uri.path.startswith("/joint"):
                seen.append([event.uri.path, event.uri.query, message.value])
            if len(seen) == 3:
                return sorted(seen)

    async def ask():
        uris = sorted(one.path for one in await asking.list_uris())
        return {"uris": uris, "moved": await ten(), "failed": await move(1, "/fail"), "last": await last()}

    def run(function):
        return loop.run_until_complete(function())

    yield lambda: run(ask), lambda: run(move), lambda: run(ten)
