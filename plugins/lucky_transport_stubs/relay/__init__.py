"""The relay: gRPC servers of any language on this host, for clients in shared memory (`lucky-transport relay`)."""
