"""The health service beside another one; a watcher sees the status change."""

from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Switch:
    def __init__(self, servicer):
        self.servicer = servicer

    def Say(self, request, context):
        self.servicer.set("chat.Chat", health_pb2.HealthCheckResponse.ServingStatus.Value(request))
        return request


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    servicer = health.HealthServicer(
        experimental_non_blocking=True, experimental_thread_pool=futures.ThreadPoolExecutor(max_workers=5)
    )
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    add_chat_servicer(Switch(servicer), server)
    servicer.set("chat.Chat", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub, checker = ChatStub(channel), health_pb2_grpc.HealthStub(channel)
        name = health_pb2.HealthCheckResponse.ServingStatus.Name
        request = health_pb2.HealthCheckRequest(service="chat.Chat")
        say(name(checker.Check(request).status))
        watched = checker.Watch(request)
        say(name(next(watched).status))
        stub.Say("NOT_SERVING")
        say(name(next(watched).status), name(checker.Check(request).status))
        watched.cancel()
        try:
            checker.Check(health_pb2.HealthCheckRequest(service="unknown"))
        except grpc.RpcError as error:
            say(error.code())


main(serve, call)
