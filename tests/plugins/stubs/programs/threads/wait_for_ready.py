"""A client that is there before its server, and watches the channel become ready."""

import threading

import grpc
from chat import ChatStub, main, say


class Greeter:
    def Say(self, request, context):
        return f"Hello, {request}!"


def call(address):
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    with grpc.insecure_channel(address, options) as channel:
        is_ready = threading.Event()
        channel.subscribe(lambda state: state is grpc.ChannelConnectivity.READY and is_ready.set(), True)
        stub = ChatStub(channel)
        try:
            stub.Say("too early", timeout=1)
        except grpc.RpcError as error:
            say(error.code())
        say("waiting")
        say(stub.Say("you", wait_for_ready=True, timeout=30))
        say(is_ready.wait(10))
        grpc.channel_ready_future(channel).result(10)


main(Greeter(), call)
