"""Local credentials at both ends: the handler asks what they say of its caller."""

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Greeter:
    async def Say(self, request, context):
        said = sorted(context.auth_context().items())
        return f"Hello, {request}! {context.peer_identity_key()} {context.peer_identities()} {said}"


async def serve(address):
    server = grpc.aio.server()
    add_chat_servicer(Greeter(), server)
    server.add_secure_port(address, grpc.local_server_credentials())
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.secure_channel(address, grpc.local_channel_credentials()) as channel:
        say(await ChatStub(channel).Say("you"))


main(serve, call)
