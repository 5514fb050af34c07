"""Interceptors at both ends: one adds a header, one asks for it."""

import grpc
from chat import ChatStub, add_chat_servicer, main, say


class AddHeader(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, value):
        self.value = value

    async def intercept_unary_unary(self, continuation, client_call_details, request):
        metadata = grpc.aio.Metadata(("one-time-password", self.value))
        response = await continuation(client_call_details._replace(metadata=metadata), request)
        say("client saw", await response.code())
        return response


class AskForHeader(grpc.aio.ServerInterceptor):
    def __init__(self, value):
        self.value = value
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    async def deny(self, request, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong password")

    async def intercept_service(self, continuation, handler_call_details):
        if ("one-time-password", self.value) in handler_call_details.invocation_metadata:
            return await continuation(handler_call_details)
        return self.denied


class Greeter:
    async def Say(self, request, context):
        return f"Hello, {request}!"


async def serve(address):
    server = grpc.aio.server(interceptors=(AskForHeader("42"),))
    add_chat_servicer(Greeter(), server)
    server.add_insecure_port(address)
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.insecure_channel(address, interceptors=[AddHeader("42")]) as channel:
        say(await ChatStub(channel).Say("you"))
    async with grpc.aio.insecure_channel(address, interceptors=[AddHeader("41")]) as channel:
        try:
            await ChatStub(channel).Say("me")
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
