"""The channelz service: the servers of the program with their ports, and what it says of those that are not there."""

import grpc
from chat import main, say
from grpc_channelz.v1 import channelz, channelz_pb2, channelz_pb2_grpc


async def serve(address):
    server = grpc.aio.server(options=(("grpc.enable_channelz", 1),))
    channelz.add_channelz_servicer(server)
    server.add_insecure_port(address)
    await server.start()
    say("ready")
    await server.wait_for_termination()


async def call(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = channelz_pb2_grpc.ChannelzStub(channel)
        (server,) = (await stub.GetServers(channelz_pb2.GetServersRequest(start_server_id=0))).server
        top = await stub.GetTopChannels(channelz_pb2.GetTopChannelsRequest())
        say(len(server.listen_socket), len(top.channel))
        found = (await stub.GetServer(channelz_pb2.GetServerRequest(server_id=server.ref.server_id))).server
        say(found.ref.server_id == server.ref.server_id)
        try:
            await stub.GetSubchannel(channelz_pb2.GetSubchannelRequest(subchannel_id=10**9))
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
