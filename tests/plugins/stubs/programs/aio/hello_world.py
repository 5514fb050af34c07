"""One unary call."""

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Greeter:
    async def Say(self, request, context):
        return f"Hello, {request}!"


async def serve(address):
    server = grpc.aio.server()
    add_chat_servicer(Greeter(), server)
    server.add_insecure_port(address)
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        say(await ChatStub(channel).Say("you"))


main(serve, call)
