"""Local credentials at both ends: the handler asks what they say of its caller."""

from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Greeter:
    def Say(self, request, context):
        said = sorted(context.auth_context().items())
        return f"Hello, {request}! {context.peer_identity_key()} {context.peer_identities()} {said}"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Greeter(), server)
    server.add_secure_port(address, grpc.local_server_credentials())
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.secure_channel(address, grpc.local_channel_credentials()) as channel:
        say(ChatStub(channel).Say("you"))


main(serve, call)
