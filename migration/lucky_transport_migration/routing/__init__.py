"""The transport `staged:`: gRPC and shared memory as one, each method over the one that its stage says."""
