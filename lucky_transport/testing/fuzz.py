"""Fuzz jobs, run by hand or by a scheduled job: `python -m lucky_transport.testing.fuzz envelopes --rounds 1000000`.

Rule 1: without `--seed` every run takes another way; the seed is printed first, and a finding names it.
Rule 2: exit code 0 means that all rounds were played and nothing was found.
"""

from __future__ import annotations

import argparse
import importlib
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, cast

__all__ = ["JOBS", "main"]

#: What can be fuzzed, and the class that does it: made with a seed, `run(rounds)`, `seen`.
JOBS = {
    "envelopes": "lucky_transport.testing.fuzz_envelopes:EnvelopeFuzz",
    "rings": "lucky_transport.testing.fuzz_rings:RingFuzz",
}
#: Rounds between two lines of progress.
_STRIDE = 50_000


class _Job(Protocol):
    seen: Counter[str]

    def run(self, rounds: int) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lucky_transport.testing.fuzz", description=__doc__)
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("--rounds", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="to play a run again")
    chosen = parser.parse_args(arguments)
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    print(f"{chosen.job}: {chosen.rounds} rounds, seed {seed}", flush=True)
    job = _make(chosen.job, seed)
    start, played = time.monotonic(), 0
    try:
        while played < chosen.rounds:
            rounds = min(_STRIDE, chosen.rounds - played)
            job.run(rounds)
            played += rounds
            print(f"{played} rounds in {time.monotonic() - start:.0f} s", flush=True)
    except AssertionError as finding:
        print(f"FOUND {finding}", file=sys.stderr)
        return 1
    for outcome, count in sorted(job.seen.items()):
        print(f"{count:>10}  {outcome}")
    return 0


def _make(job: str, seed: int) -> _Job:
    module, _, name = JOBS[job].partition(":")
    made: Any = getattr(importlib.import_module(module), name)(seed)
    return cast(_Job, made)


if __name__ == "__main__":
    sys.exit(main())
