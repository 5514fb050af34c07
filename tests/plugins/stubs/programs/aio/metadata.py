"""Metadata of the call, initial and trailing, text and binary; a status with details."""

import grpc
from chat import ChatStub, main, say


class Echo:
    async def Say(self, request, context):
        got = [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
        await context.send_initial_metadata((("initial", "1"), ("initial-bin", b"\x00\xff")))
        context.set_trailing_metadata((("trailing", "2"), ("trailing", "3")))
        if request == "fail":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today: ü")
        return repr(got)


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        sent = (("x-text", "a value"), ("x-data-bin", b"\x01\x02"), ("x-text", "another"))
        done = stub.Say("x", metadata=sent)
        say(await done, await done.code())
        say(list(await done.initial_metadata()), list(await done.trailing_metadata()))
        try:
            await stub.Say("fail", metadata=sent)
        except grpc.RpcError as error:
            say(error.code(), error.details(), list(error.trailing_metadata() or ()))


main(Echo(), call)
