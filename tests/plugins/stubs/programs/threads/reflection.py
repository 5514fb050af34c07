"""The reflection service beside others: what is served, and the file that describes it."""

from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class Greeter:
    def Say(self, request, context):
        return f"Hello, {request}!"


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    add_chat_servicer(Greeter(), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    reflection.enable_server_reflection((HEALTH, reflection.SERVICE_NAME), server)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    request = reflection_pb2.ServerReflectionRequest
    with grpc.insecure_channel(address) as channel:
        say(ChatStub(channel).Say("you"))
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = (request(list_services=""), request(file_containing_symbol=HEALTH), request(file_by_filename="no"))
        services, files, error = stub.ServerReflectionInfo(iter(requests))
        say([service.name for service in services.list_services_response.service])
        for content in files.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(content)
            say(file.name, [message.name for message in file.message_type])
        say(error.error_response.error_code, error.error_response.error_message)


main(serve, call)
