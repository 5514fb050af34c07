"""The cases, one module for each thing that gRPC's API promises."""
