"""Servers of threads, and what those of asyncio (`lucky_transport_stubs.aio`) share with them.

server: a `grpc.Server`, its ports and its life. port: where it listens. admission: which calls it answers. handlers:
finds the handler of a call. servicing: has it run on the right thread. answering: the request in, the response out.
call_state: what a handler has said, and the end of the call. context: what a handler is given. engine_services: the
gRPC services of an engine.
"""
