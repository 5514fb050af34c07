"""A gRPC server as a program starts one, and the echo service of the cases that need no service of their own."""

import socket
import time
from concurrent import futures
from contextlib import contextmanager

import grpc


@contextmanager
def serving(port, *register, credentials=None, **options):
    """Serve what each of `register` adds to a server at 127.0.0.1:PORT."""
    server = grpc.server(futures.ThreadPoolExecutor(8), **options)
    for add in register:
        add(server)
    address = f"127.0.0.1:{port}"
    bound = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    assert bound == port
    server.start()
    try:
        yield server
    finally:
        server.stop(1).wait(10)


def until_listening(port, process):
    """Return once the process listens at 127.0.0.1:PORT."""
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "it ended"
            time.sleep(0.1)
    raise TimeoutError(f"nothing listens at {port}")


def answer_of(call):
    """Return what a call returns, or the code and the details of its error."""
    try:
        return call()
    except grpc.RpcError as error:
        return [error.code().name, error.details()]


def add_echo(server):
    """Add lab.Echo: Say answers what it is sent, Fail an error, Count a stream, Sum the length of a stream."""

    def say(request, context):
        context.set_trailing_metadata((("said", dict(context.invocation_metadata()).get("asked", "")),))
        return request

    def fail(request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no: {request.decode()}")

    def count(request, context):
        yield from (b"%d" % number for number in range(int(request)))

    def total(requests, context):
        return b"%d" % sum(map(len, requests))

    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(say),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Sum": grpc.stream_unary_rpc_method_handler(total),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Echo", handlers),))


def ask_echo(channel):
    """Return what the methods of lab.Echo answer on this channel, and a function that makes one small call."""
    say = channel.unary_unary("/lab.Echo/Say")

    def equal():
        answer, call = say.with_call(b"hello", metadata=(("asked", "once"),), timeout=30)
        return {
            "said": answer.decode(),
            "trailing": [list(pair) for pair in call.trailing_metadata() or () if pair[0] == "said"],
            "error": answer_of(lambda: channel.unary_unary("/lab.Echo/Fail")(b"x", timeout=30)),
            "counted": [one.decode() for one in channel.unary_stream("/lab.Echo/Count")(b"20", timeout=30)],
            "sum": channel.stream_unary("/lab.Echo/Sum")(iter([b"a" * 10] * 20), timeout=30).decode(),
        }

    return equal, lambda: say(b"x", timeout=30)
