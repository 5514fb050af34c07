"""Two services on one server and one channel, called by several threads at once."""

from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Speaker:
    def __init__(self, word):
        self.word = word

    def Say(self, request, context):
        return f"{self.word} {request}"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Speaker("hello"), server, "chat.Greeter")
    add_chat_servicer(Speaker("goodbye"), server, "chat.Leaver")
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel, futures.ThreadPoolExecutor(8) as pool:
        stubs = [ChatStub(channel, f"chat.{name}") for name in ("Greeter", "Leaver")]
        for words in pool.map(lambda number: [stub.Say(str(number)) for stub in stubs], range(100)):
            say(*words)
        try:
            ChatStub(channel, "chat.Stranger").Say("x")
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
