"""A service config with a retry policy: the server turns every call away twice, and serves it at the third attempt."""

import json
from collections import Counter

import grpc
from chat import ChatStub, main, say

SERVICE_CONFIG = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{"service": "chat.Chat"}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "0.2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)


class Flaky:
    def __init__(self):
        self.attempts = Counter()

    def _turn_away(self, name, context):
        self.attempts[name] += 1
        if self.attempts[name] < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "come back later")
        metadata = dict(context.invocation_metadata())
        return f"{name} after {metadata.get('grpc-previous-rpc-attempts')}"

    def Say(self, request, context):
        if request == "never":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not this one")
        return self._turn_away(request, context)

    def List(self, request, context):
        yield self._turn_away(request, context)
        yield "and more"

    def Collect(self, requests, context):
        return self._turn_away("+".join(requests), context)

    def Talk(self, requests, context):
        yield self._turn_away("-".join(requests), context)


def call(address):
    options = (("grpc.enable_retries", 1), ("grpc.service_config", SERVICE_CONFIG))
    with grpc.insecure_channel(address, options=options) as channel:
        stub = ChatStub(channel)
        say(stub.Say("blocking"))
        say(stub.Say.future("future").result())
        say(*stub.List("list"))
        say(stub.Collect(iter(("one", "two"))))
        say(*stub.Talk(iter(("three", "four"))))
        try:
            stub.Say("never")
        except grpc.RpcError as error:
            say(error.code(), error.details())
    with grpc.insecure_channel(address, options=(("grpc.enable_retries", 0), options[1])) as channel:
        try:
            ChatStub(channel).Say("without retries")
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(Flaky(), call)
