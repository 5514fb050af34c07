"""A client that leaves a stream, and one whose deadline passes; the server notices both."""

import asyncio

import grpc
from chat import ChatStub, main, say


class Counter:
    def __init__(self):
        self.left = asyncio.Semaphore(0)

    async def List(self, request, context):
        try:
            number = 0
            while True:
                yield str(number)
                number += 1
                await asyncio.sleep(0.01)
        finally:
            self.left.release()

    async def Say(self, request, context):
        await asyncio.wait_for(self.left.acquire(), 10)
        return "a caller has left"


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        numbers = stub.List("")
        say([await numbers.read() for _ in range(3)])
        say(numbers.cancel(), await numbers.code(), await numbers.details())
        say(await stub.Say(""))
        try:
            async for _ in stub.List("", timeout=0.2):
                pass
        except grpc.RpcError as error:
            say(error.code())
        say(await stub.Say(""))


main(Counter(), call)
