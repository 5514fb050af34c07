"""All four kinds of methods."""

import asyncio

import grpc
from chat import ChatStub, main, say


class Guide:
    async def Say(self, request, context):
        return f"feature at {request}"

    async def List(self, request, context):
        for number in range(int(request)):
            yield f"feature {number}"

    async def Collect(self, request_iterator, context):
        points = [int(request) async for request in request_iterator]
        return f"{len(points)} points, {sum(points)} in all"

    async def Talk(self, request_iterator, context):
        notes = []
        async for note in request_iterator:
            for earlier in notes:
                yield f"{earlier}, before {note}"
            notes.append(note)


async def points():
    for number in range(5):
        yield str(number)
        await asyncio.sleep(0.01)


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        say(await stub.Say("409146138,-746188906"))
        async for feature in stub.List("100"):
            say(feature)
        say(await stub.Collect(points()))
        async for note in stub.Talk(iter(["a", "b", "c"])):
            say(note)


main(Guide(), call)
