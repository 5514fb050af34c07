"""Programs of asyncio, each with both of its ends; what a client prints is what is compared."""

import asyncio
import os
import signal

import grpc
from chat import ChatStub, add_chat_servicer, main, say


async def start(servicer, address):
    """Return a server that has started."""
    server = grpc.aio.server()
    add_chat_servicer(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server


def serving(servicer):
    """Return what serves until the program is ended."""

    async def serve(address):
        server = await start(servicer(), address)
        say("ready")
        await server.wait_for_termination()

    return serve


def calling(call):
    """Return what calls over a channel of its own."""

    async def client(address):
        async with grpc.aio.insecure_channel(address) as channel:
            await call(channel)

    return client


class Greeter:
    async def Say(self, request, context):
        return f"Hello, {request}!"


async def greet(channel):
    say(await ChatStub(channel).Say("you"))


class Slow:
    async def Say(self, request, context):
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would, in the middle of a call
        await asyncio.sleep(0.5)
        return "in time"


async def serve_until_sigterm(address):
    """Stop at SIGTERM: the call under way ends well, new ones are refused."""
    server = await start(Slow(), address)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    say("ready")
    await stopping.wait()
    await server.stop(30)
    say("timed out:", await server.wait_for_termination(10))


async def call_until_refused(channel):
    stub = ChatStub(channel)
    say(await stub.Say("x"))
    try:
        await stub.Say("y", timeout=10)
    except grpc.RpcError as error:
        say(error.code())


main(
    graceful_stop=(serve_until_sigterm, calling(call_until_refused)),
    hello_world=(serving(Greeter), calling(greet)),
)
