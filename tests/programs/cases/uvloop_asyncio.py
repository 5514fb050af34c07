"""grpc.aio on uvloop's event loops, on both sides."""

import asyncio
import threading
from contextlib import contextmanager

import grpc
import uvloop
from serving import add_echo


@contextmanager
def server(port):
    """Serve lab.Echo from an event loop of uvloop."""
    loop, is_serving = uvloop.new_event_loop(), threading.Event()

    async def serve():
        served = grpc.aio.server()
        add_echo(served)
        served.add_insecure_port(f"127.0.0.1:{port}")
        await served.start()
        is_serving.set()
        return served

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    served = asyncio.run_coroutine_threadsafe(serve(), loop).result(60)
    assert is_serving.wait(60)
    yield
    asyncio.run_coroutine_threadsafe(served.stop(1), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)


@contextmanager
def client(port):
    """Ask it, twenty calls at a time too."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)

    async def open_channel():
        return grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    channel = loop.run_until_complete(open_channel())
    say = channel.unary_unary("/lab.Echo/Say")

    async def many():
        return await asyncio.gather(*(say(b"%d" % number, timeout=30) for number in range(20)))

    async def ask():
        async def requests():
            for _ in range(20):
                yield b"a" * 10

        try:
            await channel.unary_unary("/lab.Echo/Fail")(b"x", timeout=30)
            error = None
        except grpc.aio.AioRpcError as raised:
            error = [raised.code().name, raised.details()]
        count = channel.unary_stream("/lab.Echo/Count")(b"20", timeout=30)
        return {
            "said": [one.decode() for one in await many()],
            "error": error,
            "counted": [one.decode() async for one in count],
            "sum": (await channel.stream_unary("/lab.Echo/Sum")(requests(), timeout=30)).decode(),
        }

    async def one():
        return await say(b"x", timeout=30)

    def run(function):
        return loop.run_until_complete(function())

    yield lambda: run(ask), lambda: run(one), lambda: run(many)
    loop.run_until_complete(channel.close())
    loop.close()
