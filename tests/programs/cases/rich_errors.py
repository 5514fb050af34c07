"""grpcio-status' rich errors and grpc-interceptor's interceptors on both sides."""

from contextlib import contextmanager

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_interceptor import ClientInterceptor
from grpc_interceptor.exceptions import NotFound
from grpc_interceptor.server import ServerInterceptor
from grpc_status import rpc_status
from serving import serving


class Counting(ClientInterceptor):
    """Counts calls, and adds metadata to each."""

    calls = 0

    def intercept(self, method, request_or_iterator, call_details):
        self.calls += 1
        with_more = call_details._replace(metadata=(*(call_details.metadata or ()), ("count", str(self.calls))))
        return method(request_or_iterator, with_more)


class Raising(ServerInterceptor):
    """Turns an exception of a handler into its status, and notes the method in a trailer."""

    def intercept(self, method, request, context, method_name):
        context.set_trailing_metadata((("seen", method_name),))
        try:
            return method(request, context)
        except NotFound as error:
            context.abort(error.status_code, error.details)


def _reach(request, context):
    if request == b"nothing":
        raise NotFound("no such place")
    if request:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.QuotaFailure(violations=[{"subject": "arm", "description": request.decode()}]))
        status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message="too far", details=[detail])
        context.abort_with_status(rpc_status.to_status(status))
    return dict(context.invocation_metadata())["count"].encode()


def _add(server):
    handlers = {"Reach": grpc.unary_unary_rpc_method_handler(_reach)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Arm", handlers),))


def server(port):
    """Serve an arm that reaches some places."""
    return serving(port, _add, interceptors=[Raising()])


@contextmanager
def client(port):
    """Reach, and read why not."""
    counting = Counting()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as plain:
        reach = grpc.intercept_channel(plain, counting).unary_unary("/lab.Arm/Reach")

        def refused(place):
            try:
                reach(place, timeout=30)
            except grpc.RpcError as error:
                status, trailing = rpc_status.from_call(error), dict(error.trailing_metadata())
                return [error.code().name, error.details(), sorted(trailing), str(status and status.details)]

        def equal():
            reached = [reach(b"", timeout=30).decode() for _ in range(5)]
            return {"reached": reached, "far": refused(b"2 m"), "nowhere": refused(b"nothing"), "calls": counting.calls}

        yield equal, lambda: reach(b"", timeout=30), lambda: refused(b"2 m")
