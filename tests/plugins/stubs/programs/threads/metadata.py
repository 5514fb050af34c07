"""Metadata of the call, initial and trailing, text and binary; a status with details."""

import grpc
from chat import ChatStub, main, say


class Echo:
    def Say(self, request, context):
        got = [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
        context.send_initial_metadata((("initial", "1"), ("initial-bin", b"\x00\xff")))
        context.set_trailing_metadata((("trailing", "2"), ("trailing", "3")))
        if request == "fail":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today: ü")
        return repr(got)


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(channel)
        sent = (("x-text", "a value"), ("x-data-bin", b"\x01\x02"), ("x-text", "another"))
        response, done = stub.Say.with_call("x", metadata=sent)
        say(response, done.code())
        say([(key, value) for key, value in done.initial_metadata()])
        say([(key, value) for key, value in done.trailing_metadata()])
        try:
            stub.Say("fail", metadata=sent)
        except grpc.RpcError as error:
            say(error.code(), error.details(), [(key, value) for key, value in error.trailing_metadata()])


main(Echo(), call)
