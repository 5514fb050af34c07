"""All four kinds of methods."""

import time

import grpc
from chat import ChatStub, main, say


class Guide:
    def Say(self, request, context):
        return f"feature at {request}"

    def List(self, request, context):
        for number in range(int(request)):
            yield f"feature {number}"

    def Collect(self, request_iterator, context):
        points = [int(request) for request in request_iterator]
        return f"{len(points)} points, {sum(points)} in all"

    def Talk(self, request_iterator, context):
        notes = []
        for note in request_iterator:
            yield from (f"{earlier}, before {note}" for earlier in notes)
            notes.append(note)


def points():
    for number in range(5):
        yield str(number)
        time.sleep(0.01)


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        say(stub.Say("409146138,-746188906"))
        say(stub.Say.future("0,0").result(timeout=10))
        for feature in stub.List("100"):
            say(feature)
        say(stub.Collect(points()))
        for note in stub.Talk(iter(["a", "b", "c"])):
            say(note)


main(Guide(), call)
