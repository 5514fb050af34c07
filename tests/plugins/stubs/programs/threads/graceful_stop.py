"""A server that SIGTERM stops: the call under way ends well, new ones are refused."""

import os
import signal
import threading
import time
from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Slow:
    def Say(self, request, context):
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would, in the middle of a call
        time.sleep(0.5)
        return "in time"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Slow(), server)
    server.add_insecure_port(address)
    server.start()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    say("ready")
    stopping.wait()
    say("stopped:", server.stop(30).wait(30))
    say("timed out:", server.wait_for_termination(10))


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        say(stub.Say("x"))
        try:
            stub.Say("y", timeout=10)
        except grpc.RpcError as error:
            say(error.code())


main(serve, call)
