"""A client that leaves a stream, and one whose deadline passes; the server notices both."""

import threading
import time
from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Counter:
    def __init__(self):
        self.left = threading.Semaphore(0)

    def List(self, request, context):
        context.add_callback(self.left.release)
        number = 0
        while context.is_active():
            yield str(number)
            number += 1
            time.sleep(0.01)

    def Say(self, request, context):
        return "a caller has left" if self.left.acquire(timeout=10) else "nobody has left"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Counter(), server)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        numbers = stub.List("")
        say([next(numbers) for _ in range(3)])
        say(numbers.cancel(), numbers.code(), numbers.details())
        say(stub.Say(""))
        try:
            for _ in stub.List("", timeout=0.2):
                pass
        except grpc.RpcError as error:
            say(error.code())
        say(stub.Say(""))


main(serve, call)
