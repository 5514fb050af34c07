"""The health service beside another one; a watcher sees the status change."""

import grpc
from chat import ChatStub, add_chat_servicer, main, say
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Switch:
    def __init__(self, servicer):
        self.servicer = servicer

    async def Say(self, request, context):
        await self.servicer.set("chat.Chat", health_pb2.HealthCheckResponse.ServingStatus.Value(request))
        return request


async def serve(address):
    server = grpc.aio.server()
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    add_chat_servicer(Switch(servicer), server)
    await servicer.set("chat.Chat", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(address)
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub, checker = ChatStub(channel), health_pb2_grpc.HealthStub(channel)
        name = health_pb2.HealthCheckResponse.ServingStatus.Name
        request = health_pb2.HealthCheckRequest(service="chat.Chat")
        say(name((await checker.Check(request)).status))
        watched = checker.Watch(request)
        say(name((await watched.read()).status))
        await stub.Say("NOT_SERVING")
        say(name((await watched.read()).status), name((await checker.Check(request)).status))
        watched.cancel()
        try:
            await checker.Check(health_pb2.HealthCheckRequest(service="unknown"))
        except grpc.RpcError as error:
            say(error.code())


main(serve, call)
