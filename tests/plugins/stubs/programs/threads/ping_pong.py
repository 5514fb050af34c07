"""A stream both ways in which every request answers the response before it."""

import queue

import grpc
from chat import ChatStub, main, say


class Pong:
    def Talk(self, request_iterator, context):
        for request in request_iterator:
            yield str(int(request) + 1)


def call(address):
    with grpc.insecure_channel(address) as channel:
        requests = queue.SimpleQueue()
        requests.put("0")
        responses = ChatStub(channel).Talk(iter(requests.get, None))
        for response in responses:
            say(response)
            requests.put(str(int(response) * 2) if int(response) < 1000 else None)
        say(responses.code(), responses.details() or "no details")


main(Pong(), call)
