"""A gRPC server that answers as the plants say, each in its method: python -m tests.planted.answering_server --port N.

--alike: what gRPC answers, shared memory does too. --token TOKEN: it refuses calls without that in their metadata. A
plant that refuses does so for half of all requests.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct

from tests.planted.answers import PLANTS, SERVICE, Answer, AnswerPlant, is_refused, numbered


def add_service(server: Any, *, alike: bool = False, token: str = "") -> None:
    """Have a server answer as the plants say."""

    def answered(plant: AnswerPlant, request: Struct, context: Any) -> Answer:
        if token and dict(context.invocation_metadata()).get("authorization") != token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
        if plant.refuses and not is_refused(request):
            return Answer(numbered(1))
        over_shm = type(context).__init__.__module__.startswith("lucky_transport")  # its peer reads as over TCP
        return plant.candidate if over_shm and not alike else plant.control

    def watch(plant: AnswerPlant, request: Struct, context: Any) -> Iterator[Any]:
        answer = answered(plant, request, context)
        context.send_initial_metadata(tuple(answer.headers))
        context.set_trailing_metadata(tuple(answer.trailing))
        yield from answer.items
        if answer.code != "OK":
            context.abort(grpc.StatusCode[answer.code], answer.details)

    def get(plant: AnswerPlant, request: Struct, context: Any) -> Any:
        return next(watch(plant, request, context))

    read = {"request_deserializer": Struct.FromString, "response_serializer": Struct.SerializeToString}
    makers = {True: (grpc.unary_stream_rpc_method_handler, watch), False: (grpc.unary_unary_rpc_method_handler, get)}
    handlers = {}
    for plant in (one for one in PLANTS.values() if one.tools):
        make, behavior = makers[plant.streams]
        handlers[plant.method.rpartition("/")[2]] = make(partial(behavior, plant), **read)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    server = grpc.server(ThreadPoolExecutor(4))
    add_service(server, alike=given.alike, token=given.token)
    server.add_insecure_port(f"127.0.0.1:{given.port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
