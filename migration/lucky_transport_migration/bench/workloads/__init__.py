"""Programs and loops that suites start: native limits, a policy on a GPU, gRPC code as it is."""
