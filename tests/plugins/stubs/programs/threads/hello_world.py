"""One unary call."""

from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Greeter:
    def Say(self, request, context):
        return f"Hello, {request}!"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Greeter(), server)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        say(ChatStub(channel).Say("you"))


main(serve, call)
