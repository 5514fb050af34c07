"""Programs of asyncio, each with both of its ends; what a client prints is what is compared."""

import asyncio
import os
import signal

import grpc
from chat import ChatStub, add_chat_servicer, main, say


async def start(servicer, address, **options):
    """Return a server that has started."""
    server = grpc.aio.server(**options)
    add_chat_servicer(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server


def serving(servicer, **options):
    """Return what serves until the program is ended."""

    async def serve(address):
        server = await start(servicer(), address, **options)
        say("ready")
        await server.wait_for_termination()

    return serve


def calling(call, **options):
    """Return what calls over a channel of its own."""

    async def client(address):
        async with grpc.aio.insecure_channel(address, **options) as channel:
            await call(channel)

    return client


class Greeter:
    async def Say(self, request, context):
        return f"Hello, {request}!"


async def greet(channel):
    say(await ChatStub(channel).Say("you"))


class Slow:
    async def Say(self, request, context):
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would, in the middle of a call
        await asyncio.sleep(0.5)
        return "in time"


async def serve_until_sigterm(address):
    """Stop at SIGTERM: the call under way ends well, new ones are refused."""
    server = await start(Slow(), address)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    say("ready")
    await stopping.wait()
    await server.stop(30)
    say("timed out:", await server.wait_for_termination(10))


async def call_until_refused(channel):
    stub = ChatStub(channel)
    say(await stub.Say("x"))
    try:
        await stub.Say("y", timeout=10)
    except grpc.RpcError as error:
        say(error.code())


class AddHeader(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, value):
        self.value = value

    async def intercept_unary_unary(self, continuation, client_call_details, request):
        metadata = grpc.aio.Metadata(("one-time-password", self.value))
        response = await continuation(client_call_details._replace(metadata=metadata), request)
        say("client saw", await response.code())
        return response


class AskForHeader(grpc.aio.ServerInterceptor):
    def __init__(self):
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    async def deny(self, request, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong password")

    async def intercept_service(self, continuation, handler_call_details):
        if ("one-time-password", "42") in handler_call_details.invocation_metadata:
            return await continuation(handler_call_details)
        return self.denied


async def call_with_headers(address):
    for value in ("42", "41"):
        async with grpc.aio.insecure_channel(address, interceptors=[AddHeader(value)]) as channel:
            try:
                say(await ChatStub(channel).Say("you"))
            except grpc.RpcError as error:
                say(error.code(), error.details())


async def come_early(channel):
    """Be there before the server, and wait for the channel to become ready."""
    stub = ChatStub(channel)
    try:
        await stub.Say("too early", timeout=1)
    except grpc.RpcError as error:
        say(error.code())
    say("waiting")
    say(await stub.Say("you", wait_for_ready=True, timeout=30))
    await channel.channel_ready()
    say(channel.get_state())


HASTY = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]

main(
    graceful_stop=(serve_until_sigterm, calling(call_until_refused)),
    hello_world=(serving(Greeter), calling(greet)),
    interceptors=(serving(Greeter, interceptors=(AskForHeader(),)), call_with_headers),
    wait_for_ready=(serving(Greeter), calling(come_early, options=HASTY)),
)
