"""A gRPC server that answers as a plant says: python -m tests.planted.answering_server --port N --plant NAME.

--alike: what gRPC answers, shared memory does too. --token TOKEN: it refuses calls without that in their metadata. A
plant that refuses does so for half of all requests.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct

from tests.planted.answers import PLANTS, SERVICE, Answer, is_refused, numbered


def add_service(server: Any, name: str = "", *, alike: bool = False, token: str = "") -> None:
    """Have a server answer as the plant of that name says."""
    plant = PLANTS.get(name)
    accepted = {"Get": Answer(numbered(1)), "Watch": Answer(numbered(1, 2))}

    def answered(name: str, request: Struct, context: Any) -> Answer:
        if token and dict(context.invocation_metadata()).get("authorization") != token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
        if plant is None or not plant.method.endswith(name) or (plant.refuses and not is_refused(request)):
            return accepted[name]
        over_shm = type(context).__init__.__module__.startswith("lucky_transport")  # its peer reads as over TCP
        return plant.candidate if over_shm and not alike else plant.control

    def ended(answer: Answer, context: Any) -> None:
        context.set_trailing_metadata(tuple(answer.trailing))
        if answer.code != "OK":
            context.abort(grpc.StatusCode[answer.code], answer.details)

    def get(request: Struct, context: Any) -> Any:
        answer = answered("Get", request, context)
        context.send_initial_metadata(tuple(answer.headers))
        ended(answer, context)
        return answer.items[0]

    def watch(request: Struct, context: Any) -> Iterator[Any]:
        answer = answered("Watch", request, context)
        yield from answer.items
        ended(answer, context)

    read = {"request_deserializer": Struct.FromString, "response_serializer": Struct.SerializeToString}
    handlers = {
        "Get": grpc.unary_unary_rpc_method_handler(get, **read),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, **read),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--plant", default="")
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    server = grpc.server(ThreadPoolExecutor(4))
    add_service(server, given.plant, alike=given.alike, token=given.token)
    server.add_insecure_port(f"127.0.0.1:{given.port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
