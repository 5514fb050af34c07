"""What gRPC calls things, for channels and servers alike: status, metadata, options, credentials; without I/O."""
