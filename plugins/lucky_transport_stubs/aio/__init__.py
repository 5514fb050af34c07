"""The asyncio side: `grpc.aio` channels and servers over shared memory."""
