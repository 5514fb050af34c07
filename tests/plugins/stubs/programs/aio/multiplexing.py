"""Two services on one server and one channel, called by many tasks at once."""

import asyncio

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Speaker:
    def __init__(self, word):
        self.word = word

    async def Say(self, request, context):
        return f"{self.word} {request}"


async def serve(address):
    server = grpc.aio.server()
    add_chat_servicer(Speaker("hello"), server, "chat.Greeter")
    add_chat_servicer(Speaker("goodbye"), server, "chat.Leaver")
    server.add_insecure_port(address)
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stubs = [ChatStub(channel, f"chat.{name}") for name in ("Greeter", "Leaver")]
        for words in await asyncio.gather(*(stub.Say(str(number)) for number in range(100) for stub in stubs)):
            say(words)
        try:
            await ChatStub(channel, "chat.Stranger").Say("x")
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
