"""Packages whose gRPC is not Python's package grpc: no one can switch their calls, so `run` and `scan` name them."""

from __future__ import annotations

#: Modules whose generated code speaks gRPC in Python, without grpcio.
OTHER_STACKS = (
    *("betterproto", "betterproto2", "connecpy", "connectrpc"),
    *("grpclib", "purerpc", "pyarrow.flight", "sonora"),
)

#: Modules with a gRPC of their own in their wheel, in C++, Go or Rust -> what they use it for.
COMPILED = {
    "adbc_driver_flightsql": "for Flight SQL, in Go",
    "courier": "for every call between Launchpad's nodes, in C++",
    "etcd_client": "to etcd, in Rust",
    "launchpad": "for every call between its nodes, in C++",
    "ray": "between its nodes and workers, in C++",
    "rerun": "between programs and its viewer, in Rust",
    "reverb": "between its clients and its replay server, in C++",
    "temporalio": "to Temporal's server, in Rust",
    "torch_xla": "between the processes of a TPU run, in C++",
}

#: The same for packages that most programs import for something else: names of what makes a connection.
COMPILED_USES = {
    "jax.distributed.initialize": "between the processes of a distributed run, in C++",
    "pinecone.grpc": "to Pinecone's indexes, in Rust",
    "tensorflow.data.experimental.service": "to tf.data's service, in C++",
    "tensorflow.distribute.Server": "between the servers of a cluster, in C++",
}


def why_unmoved(module: str) -> str:
    """Return why the calls of this module stay where they are, as the end of a sentence that begins with its name."""
    if use := COMPILED.get(module) or COMPILED_USES.get(module):
        return f"has a gRPC of its own in its wheel, {use}; nothing can switch it"
    return "speaks gRPC without grpcio; only what is generated for grpcio is switched"
