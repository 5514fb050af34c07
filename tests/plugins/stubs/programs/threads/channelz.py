"""The channelz service: the servers of the program with their ports, and what it says of those that are not there."""

from concurrent import futures

import grpc
from chat import main, say
from grpc_channelz.v1 import channelz, channelz_pb2, channelz_pb2_grpc


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10), options=(("grpc.enable_channelz", 1),))
    channelz.add_channelz_servicer(server)
    server.add_insecure_port(address)
    server.start()
    say("ready")
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        stub = channelz_pb2_grpc.ChannelzStub(channel)
        (server,) = stub.GetServers(channelz_pb2.GetServersRequest(start_server_id=0)).server
        say(len(server.listen_socket), len(stub.GetTopChannels(channelz_pb2.GetTopChannelsRequest()).channel))
        found = stub.GetServer(channelz_pb2.GetServerRequest(server_id=server.ref.server_id)).server
        say(found.ref.server_id == server.ref.server_id)
        try:
            stub.GetSubchannel(channelz_pb2.GetSubchannelRequest(subchannel_id=10**9))
        except grpc.RpcError as error:
            say(error.code(), error.details())


main(serve, call)
