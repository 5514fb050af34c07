"""The answering process of a bare pair:

python -m lucky_transport_migration.bench.workloads.systems.semaphores_program SERVER CLIENT

It takes SERVER and gives CLIENT until it is ended, and ends by itself when no turn came for PATIENCE_S.
"""

from __future__ import annotations

import sys

import posix_ipc

from lucky_transport_migration.bench.workloads.systems.semaphores import PATIENCE_S

__all__ = ["main"]


def main() -> None:
    """Answer every turn."""
    server, client = (posix_ipc.Semaphore(name) for name in sys.argv[1:])
    try:
        while True:
            server.acquire(PATIENCE_S)
            client.release()
    except posix_ipc.BusyError:
        sys.exit(f"no turn came within {PATIENCE_S:g} s")


if __name__ == "__main__":
    main()
