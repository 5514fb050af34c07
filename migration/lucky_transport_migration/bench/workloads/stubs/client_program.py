"""The client process of a pair: `python -m lucky_transport_migration.bench.workloads.stubs.client_program`.

It reads a pickled Job from stdin, starts the server, measures, and writes the pickled Outcome to stdout.
"""

from __future__ import annotations

import pickle
import sys

from lucky_transport.errors import TransportError
from lucky_transport.registry import load
from lucky_transport_migration.bench.workloads.stubs.pair import Job, Outcome

__all__ = ["main"]


def main() -> None:
    """Do one job."""
    job: Job = pickle.load(sys.stdin.buffer)
    try:
        measure = load(
            "lucky_transport_migration.bench.workloads.stubs.client:measure", owner="bench --suite stubs", extra="grpc"
        )
        outcome: Outcome = measure(job)
    except TransportError as error:
        outcome = error
    pickle.dump(outcome, sys.stdout.buffer)


if __name__ == "__main__":
    main()
