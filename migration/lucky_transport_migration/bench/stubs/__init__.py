"""`lucky-transport bench --suite stubs`: gRPC code as it is, over real gRPC and over shared memory."""
