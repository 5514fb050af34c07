"""gRPC itself, set up as this plugin needs it: `from lucky_transport_grpc.runtime import grpc`.

grpcio documents fork support as off unless `GRPC_ENABLE_FORK_SUPPORT=1`, but in its wheels the core below has it on by
default: after a fork it starts its threads again in the child, where they work on the parent's sockets. With a server
in the process that crashed one child in twenty (grpcio 1.85, segmentation fault in the poller). The core reads the
variable once, when grpc is imported; so a program that forks beside a server imports us, or sets it, before grpc.

Grpc is imported here and nowhere else in this plugin. Our objects never touch gRPC in a forked child, so the core has
nothing to do there either. Who has set the variable keeps what it says.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # makes the core's default the documented one

import grpc

__all__ = ["grpc"]
