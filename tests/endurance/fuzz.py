"""Fuzz jobs, run by hand or by a scheduled job: `python -m tests.endurance.fuzz envelopes --rounds 1000000`.

Without `--seed` every run differs; the seed is printed first, and a finding names it. Exit code 0 means that all rounds
were played and nothing was found.
"""

import argparse
import importlib
import math
import secrets
import sys
import time
from collections.abc import Sequence
from typing import Any

#: What can be fuzzed, and the class that does it: made with a seed, `run(rounds)` or `run_for(seconds)`, `seen`.
JOBS = {
    "live": "tests.endurance.fuzz_live:LiveFuzz",
    "envelopes": "tests.endurance.fuzz_envelopes:EnvelopeFuzz",
    "rings": "tests.endurance.fuzz_rings:RingFuzz",
}
#: Rounds between two lines of progress.
_STRIDE = 50_000
_STRIDE_S = 60.0


class Finding(AssertionError):
    """Something happened that may not happen; the text shows how to see it again, and what the processes said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.fuzz", description=__doc__)
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("--rounds", type=int, default=1_000_000, help="default: %(default)s")
    seconds = "how long the live job runs, which has no fixed rounds; default: %(default)s"
    parser.add_argument("--seconds", type=float, default=600, help=seconds)
    parser.add_argument("--mutations", type=int, help="how many the live job makes, however long it takes")
    parser.add_argument("--seed", type=int, help="to play a run again")
    chosen = parser.parse_args(arguments)
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    module, _, name = JOBS[chosen.job].partition(":")
    job: Any = getattr(importlib.import_module(module), name)(seed)
    try:
        if hasattr(job, "run_for"):
            wanted = chosen.mutations
            length = f"{chosen.seconds:g} s" if wanted is None else f"{wanted} mutations"
            print(f"{chosen.job}: {length}, seed {seed}", flush=True)
            _play_for(job, chosen.seconds if wanted is None else math.inf, math.inf if wanted is None else wanted)
        else:
            print(f"{chosen.job}: {chosen.rounds} rounds, seed {seed}", flush=True)
            _play(job, chosen.rounds)
    except AssertionError as finding:
        print(f"FOUND {finding}", file=sys.stderr)
        return 1
    for outcome, count in sorted(job.seen.items()):
        print(f"{count:>10}  {outcome}")
    return 0


def _play(job: Any, rounds: int) -> None:
    start, played = time.monotonic(), 0
    while played < rounds:
        some = min(_STRIDE, rounds - played)
        job.run(some)
        played += some
        print(f"{played} rounds in {time.monotonic() - start:.0f} s", flush=True)


def _play_for(job: Any, seconds: float, mutations: float) -> None:
    start = time.monotonic()
    while (left := start + seconds - time.monotonic()) > 0 and job.mutations < mutations:
        job.run_for(min(left, _STRIDE_S))
        print(f"{job.mutations} mutations in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
