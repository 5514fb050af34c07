"""Tokens over TLS: of a channel and of a call, from a plugin; an interceptor of the server asks for them."""

import grpc
from certificates import CERTIFICATE, KEY
from chat import ChatStub, add_chat_servicer, main, say


class Signature(grpc.AuthMetadataPlugin):
    """Signs calls, as long as there is something to sign with."""

    def __init__(self, secret):
        self.secret = secret

    def __call__(self, context, callback):
        if not self.secret:
            raise ValueError("nothing to sign with")
        callback((("x-signature", f"{self.secret} {context.service_url} {context.method_name}"),), None)


class AskForToken(grpc.aio.ServerInterceptor):
    def __init__(self):
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    async def deny(self, request, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no valid token")

    async def intercept_service(self, continuation, handler_call_details):
        if ("authorization", "Bearer valid") in handler_call_details.invocation_metadata:
            return await continuation(handler_call_details)
        return self.denied


class Greeter:
    async def Say(self, request, context):
        signed = [value for key, value in context.invocation_metadata() if key == "x-signature"]
        return f"Hello, {request}! {signed}"


async def serve(address):
    server = grpc.aio.server(interceptors=(AskForToken(),))
    add_chat_servicer(Greeter(), server)
    server.add_secure_port(address, grpc.ssl_server_credentials(((KEY, CERTIFICATE),)))
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def attempt(call):
    try:
        say(await call)
    except grpc.RpcError as error:
        say(error.code(), error.details())


async def call(address):
    tls = grpc.ssl_channel_credentials(CERTIFICATE)
    token = grpc.access_token_call_credentials("valid")
    signing, mute = (grpc.metadata_call_credentials(Signature(secret)) for secret in ("ink", ""))
    async with grpc.aio.secure_channel(address, grpc.composite_channel_credentials(tls, token, signing)) as channel:
        stub = ChatStub(channel)
        await attempt(stub.Say("you"))
        await attempt(stub.Say("you", credentials=mute))
    async with grpc.aio.secure_channel(address, tls) as channel:
        stub = ChatStub(channel)
        await attempt(stub.Say("nobody"))
        await attempt(stub.Say("stranger", credentials=grpc.access_token_call_credentials("invalid")))
        await attempt(stub.Say("you", credentials=token))


main(serve, call)
