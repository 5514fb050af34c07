"""The gRPC transport: client and server ends that speak the legacy protocol and the batch service."""
