"""A stream both ways in which every request answers the response before it."""

import grpc
from chat import ChatStub, main, say


class Pong:
    async def Talk(self, request_iterator, context):
        async for request in request_iterator:
            await context.write(str(int(request) + 1))


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        responses = ChatStub(channel).Talk()
        await responses.write("0")
        while (response := await responses.read()) is not grpc.aio.EOF:
            say(response)
            if int(response) < 1000:
                await responses.write(str(int(response) * 2))
            else:
                await responses.done_writing()
        say(await responses.code(), await responses.details() or "no details")


main(Pong(), call)
