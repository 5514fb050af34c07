"""Tokens over TLS: of a channel and of a call, from a plugin; an interceptor of the server asks for them."""

from concurrent import futures

import grpc
from certificates import CERTIFICATE, KEY
from chat import ChatStub, add_chat_servicer, main, say


class Signature(grpc.AuthMetadataPlugin):
    """Signs calls, as long as there is something to sign with."""

    def __init__(self, secret):
        self.secret = secret

    def __call__(self, context, callback):
        if not self.secret:
            callback((), ValueError("nothing to sign with"))
            return
        _, _, service = context.service_url.rpartition("/")
        callback((("x-signature", f"{self.secret} {service} {context.method_name}"),), None)


class AskForToken(grpc.ServerInterceptor):
    def __init__(self):
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    def deny(self, request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no valid token")

    def intercept_service(self, continuation, handler_call_details):
        if ("authorization", "Bearer valid") in handler_call_details.invocation_metadata:
            return continuation(handler_call_details)
        return self.denied


class Greeter:
    def Say(self, request, context):
        signed = [value for key, value in context.invocation_metadata() if key == "x-signature"]
        return f"Hello, {request}! {signed}"

    def Talk(self, requests, context):
        yield from requests


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10), interceptors=(AskForToken(),))
    add_chat_servicer(Greeter(), server)
    server.add_secure_port(address, grpc.ssl_server_credentials(((KEY, CERTIFICATE),)))
    server.start()
    say("ready")
    server.wait_for_termination()


def attempt(call):
    try:
        say(call())
    except grpc.RpcError as error:
        say(error.code(), error.details())


def call(address):
    tls = grpc.ssl_channel_credentials(CERTIFICATE)
    token = grpc.access_token_call_credentials("valid")
    signing, mute = (grpc.metadata_call_credentials(Signature(secret)) for secret in ("ink", ""))
    with grpc.secure_channel(address, grpc.composite_channel_credentials(tls, token, signing)) as channel:
        stub = ChatStub(channel)
        attempt(lambda: stub.Say("you"))
        attempt(lambda: list(stub.Talk(iter(["a", "b"]))))
        attempt(lambda: stub.Say("you", credentials=mute))
    with grpc.secure_channel(address, tls) as channel:
        stub = ChatStub(channel)
        attempt(lambda: stub.Say("nobody"))
        attempt(lambda: stub.Say("stranger", credentials=grpc.access_token_call_credentials("invalid")))
        attempt(lambda: stub.Say("you", credentials=token))
        both = grpc.composite_call_credentials(token, signing)
        attempt(lambda: stub.Say.future("you too", credentials=both).result())


main(serve, call)
