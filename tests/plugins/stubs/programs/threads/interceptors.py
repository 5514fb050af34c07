"""Interceptors at both ends: one adds a header, one asks for it, two log around every call."""

import collections
from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class Details(
    collections.namedtuple(
        "Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")
    ),
    grpc.ClientCallDetails,
):
    pass


class AddHeader(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, value):
        self.value = value

    def _with_header(self, details):
        metadata = [*(details.metadata or ()), ("one-time-password", self.value)]
        rest = (details.credentials, details.wait_for_ready, details.compression)
        return Details(details.method, details.timeout, metadata, *rest)

    def intercept_unary_unary(self, continuation, client_call_details, request):
        response = continuation(self._with_header(client_call_details), request)
        say("client saw", response.code())
        return response

    def intercept_unary_stream(self, continuation, client_call_details, request):
        return continuation(self._with_header(client_call_details), request)


class AskForHeader(grpc.ServerInterceptor):
    def __init__(self, value):
        self.value = value
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    def deny(self, request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong password")

    def intercept_service(self, continuation, handler_call_details):
        if ("one-time-password", self.value) in handler_call_details.invocation_metadata:
            return continuation(handler_call_details)
        return self.denied


class Greeter:
    def Say(self, request, context):
        return f"Hello, {request}!"

    def List(self, request, context):
        yield from request


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10), interceptors=(AskForHeader("42"),))
    add_chat_servicer(Greeter(), server)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = ChatStub(grpc.intercept_channel(channel, AddHeader("42")))
        say(stub.Say("you"), *stub.List("abc"))
        try:
            ChatStub(grpc.intercept_channel(channel, AddHeader("41"))).Say("me")
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
