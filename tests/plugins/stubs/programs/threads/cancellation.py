"""A client that leaves a stream, and one whose deadline passes; the server notices both."""

import threading
import time

import grpc
from chat import ChatStub, main, say


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
        return "a caller has left" if self.left.acquire(timeout=60) else "nobody has left"


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        numbers = stub.List("")
        say([next(numbers) for _ in range(3)])
        say(numbers.cancel(), numbers.code(), numbers.details())
        say(stub.Say(""))
        try:
            for _ in stub.List("", timeout=1):
                pass
        except grpc.RpcError as error:
            say(error.code())
        say(stub.Say(""))


main(Counter(), call)
