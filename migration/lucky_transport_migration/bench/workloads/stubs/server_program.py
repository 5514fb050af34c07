"""The server process of a pair.

    python -m lucky_transport_migration.bench.workloads.stubs.server_program PATH sync|asyncio ADDRESS ITEM_BYTES

It says `ready TARGET` on stdout when it serves, and ends when its stdin does, which is when its parent has ended.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport_migration.bench.workloads.stubs.echo_stub import add_EchoServicer_to_server
from lucky_transport_migration.bench.workloads.stubs.servicers import AioEcho, Echo
from lucky_transport_migration.bench.workloads.stubs.variants import ANY_LENGTH, target_of, way_of

__all__ = ["main"]

_WORKERS = 16
_GRACE_S = 5.0


def _serve(path: str, address: str, item_bytes: int) -> None:
    with ThreadPoolExecutor(_WORKERS) as pool:
        server = way_of(path).server(pool, options=ANY_LENGTH)
        add_EchoServicer_to_server(Echo(item_bytes), server)
        target = target_of(address, server.add_insecure_port(address))
        server.start()
        _say_ready(target)
        sys.stdin.read()
        server.stop(0).wait(_GRACE_S)


async def _serve_aio(path: str, address: str, item_bytes: int) -> None:
    server: Any = way_of(path).aio_server()
    add_EchoServicer_to_server(AioEcho(item_bytes), server)
    target = target_of(address, server.add_insecure_port(address))
    await server.start()
    _say_ready(target)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


def _say_ready(target: str) -> None:
    print(f"ready {target}", flush=True)


def main() -> None:
    """Serve until stdin ends."""
    path, flavour, address, item_bytes = sys.argv[1:]
    if flavour == "asyncio":
        asyncio.run(_serve_aio(path, address, int(item_bytes)))
    else:
        _serve(path, address, int(item_bytes))


if __name__ == "__main__":
    main()
