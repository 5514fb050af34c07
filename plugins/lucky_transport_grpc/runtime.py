"""gRPC itself, set up as this plugin needs it; nothing else here imports it.

from lucky_transport_grpc.runtime import grpc
"""

from __future__ import annotations

import os

# grpcio documents fork support as off, but in its wheels gRPC's core has it on: after a fork it starts its threads
# again in the child, where they work on the parent's sockets. With a server in the process that crashed one child in
# twenty (grpcio 1.85, segmentation fault in the poller). The core reads the variable once, at import.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

__all__ = ["grpc"]
