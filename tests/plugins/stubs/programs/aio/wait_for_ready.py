"""A client that is there before its server, and waits for the channel to become ready."""

import grpc
from chat import ChatStub, main, say


class Greeter:
    async def Say(self, request, context):
        return f"Hello, {request}!"


async def call(address):
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    async with grpc.aio.insecure_channel(address, options) as channel:
        stub = ChatStub(channel)
        try:
            await stub.Say("too early", timeout=1)
        except grpc.RpcError as error:
            say(error.code())
        say("waiting")
        say(await stub.Say("you", wait_for_ready=True, timeout=30))
        await channel.channel_ready()
        say(channel.get_state())


main(Greeter(), call)
