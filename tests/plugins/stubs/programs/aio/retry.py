"""A service config with a retry policy: the server turns every call away twice, and serves it at the third attempt."""

import json
from collections import Counter

import grpc
from chat import ChatStub, main, say

SERVICE_CONFIG = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{"service": "chat.Chat"}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "0.2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)


class Flaky:
    def __init__(self):
        self.attempts = Counter()

    async def _turn_away(self, name, context):
        self.attempts[name] += 1
        if self.attempts[name] < 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "come back later")
        metadata = dict(context.invocation_metadata())
        return f"{name} after {metadata.get('grpc-previous-rpc-attempts')}"

    async def Say(self, request, context):
        if request == "never":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not this one")
        return await self._turn_away(request, context)

    async def List(self, request, context):
        yield await self._turn_away(request, context)
        yield "and more"

    async def Collect(self, requests, context):
        return await self._turn_away("+".join([request async for request in requests]), context)

    async def Talk(self, requests, context):
        yield await self._turn_away("-".join([request async for request in requests]), context)


async def call(address):
    options = (("grpc.enable_retries", 1), ("grpc.service_config", SERVICE_CONFIG))
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        stub = ChatStub(channel)
        say(await stub.Say("await"))
        say([one async for one in stub.List("list")])
        say(await stub.Collect(iter(("one", "two"))))
        say([one async for one in stub.Talk(iter(("three", "four")))])
        written = stub.Collect()
        for word in ("five", "six"):
            await written.write(word)
        await written.done_writing()
        say(await written)
        try:
            await stub.Say("never")
        except grpc.aio.AioRpcError as error:
            say(error.code(), error.details())
    async with grpc.aio.insecure_channel(address, options=(("grpc.enable_retries", 0), options[1])) as channel:
        try:
            await ChatStub(channel).Say("without retries")
        except grpc.aio.AioRpcError as error:
            say(error.code(), error.details())


main(Flaky(), call)
