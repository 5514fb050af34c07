"""A server that SIGTERM stops: the call under way ends well, new ones are refused."""

import asyncio
import os
import signal

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Slow:
    async def Say(self, request, context):
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would, in the middle of a call
        await asyncio.sleep(0.5)
        return "in time"


async def serve(address):
    server = grpc.aio.server()
    add_chat_servicer(Slow(), server)
    server.add_insecure_port(address)
    await server.start()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    say("ready")
    await stopping.wait()
    await server.stop(30)
    say("timed out:", await server.wait_for_termination(10))


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        say(await stub.Say("x"))
        try:
            await stub.Say("y", timeout=10)
        except grpc.RpcError as error:
            say(error.code())


main(serve, call)
