"""Programs of threads, each with both of its ends; what a client prints is what is compared."""

import collections
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say


def start(servicer, address, **options):
    """Return a server that has started."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10), **options)
    add_chat_servicer(servicer, server)
    server.add_insecure_port(address)
    server.start()
    return server


def serving(servicer, **options):
    """Return what serves until the program is ended."""

    def serve(address):
        server = start(servicer, address, **options)
        say("ready")
        server.wait_for_termination()

    return serve


def calling(call):
    """Return what calls over a channel of its own."""

    def client(address):
        with grpc.insecure_channel(address) as channel:
            call(channel)

    return client


class Greeter:
    def Say(self, request, context):
        return f"Hello, {request}!"

    def List(self, request, context):
        yield from request


def greet(channel):
    say(ChatStub(channel).Say("you"))


class Acquaintance:
    """Says what the credentials say of its caller."""

    def Say(self, request, context):
        said = sorted(context.auth_context().items())
        return f"Hello, {request}! {context.peer_identity_key()} {context.peer_identities()} {said}"


def serve_with_credentials(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Acquaintance(), server)
    server.add_secure_port(address, grpc.local_server_credentials())
    server.start()
    say("ready")
    server.wait_for_termination()


def greet_with_credentials(address):
    with grpc.secure_channel(address, grpc.local_channel_credentials()) as channel:
        greet(channel)


class Slow:
    def Say(self, request, context):
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would, in the middle of a call
        time.sleep(0.5)
        return "in time"


def serve_until_sigterm(address):
    """Stop at SIGTERM: the call under way ends well, new ones are refused."""
    server = start(Slow(), address)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    say("ready")
    stopping.wait()
    say("stopped:", server.stop(30).wait(30))
    say("timed out:", server.wait_for_termination(10))


def call_until_refused(channel):
    stub = ChatStub(channel)
    say(stub.Say("x"))
    try:
        stub.Say("y", timeout=10)
    except grpc.RpcError as error:
        say(error.code())


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
    def __init__(self):
        self.denied = grpc.unary_unary_rpc_method_handler(self.deny)

    def deny(self, request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong password")

    def intercept_service(self, continuation, handler_call_details):
        if ("one-time-password", "42") in handler_call_details.invocation_metadata:
            return continuation(handler_call_details)
        return self.denied


def call_with_headers(channel):
    stub = ChatStub(grpc.intercept_channel(channel, AddHeader("42")))
    say(stub.Say("you"), *stub.List("abc"))
    try:
        ChatStub(grpc.intercept_channel(channel, AddHeader("41"))).Say("me")
    except grpc.RpcError as error:
        say(error.code(), error.details())


class Primes:
    def Say(self, request, context):
        number = int(request)
        return str(number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1)))


def work(address, ready):
    server = start(Primes(), address, options=(("grpc.so_reuseport", 1),))
    ready.release()
    server.wait_for_termination()


def serve_by_processes(address):
    """Serve by several processes at one port."""
    ready = multiprocessing.Semaphore(0)
    workers = [multiprocessing.Process(target=work, args=(address, ready), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
        ready.acquire()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which ends the workers
    say("ready")
    for worker in workers:
        worker.join()


stub = None


def connect(address):
    global stub
    stub = ChatStub(grpc.insecure_channel(address))


def is_prime(number):
    return stub.Say(str(number), timeout=30)


def call_by_processes(address):
    """Call from a pool of processes, each with a channel of its own."""
    with multiprocessing.Pool(3, connect, (address,)) as pool:
        answers = pool.map(is_prime, range(200))
    say([number for number, answer in enumerate(answers) if answer == "True"])


if __name__ == "__main__":
    main(
        graceful_stop=(serve_until_sigterm, calling(call_until_refused)),
        hello_world=(serving(Greeter()), calling(greet)),
        interceptors=(serving(Greeter(), interceptors=(AskForHeader(),)), calling(call_with_headers)),
        local_credentials=(serve_with_credentials, greet_with_credentials),
        multiprocessing_clients=(serve_by_processes, call_by_processes),
    )
