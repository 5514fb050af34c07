"""The machine's own limits: two native processes that spin or sleep on one word and copy as many bytes as a step does.

The loops are `ping_pong.c`, compiled when first needed. Without a C compiler the rows are left out, and a note says so.
A benchmark quotes its rows against the limit measured in the same run, never against a figure from elsewhere.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.suite import Cell, Plan

_ITS_NUMBER = "its number"  # each of the two loops waits for the number that is due
_KINDS = {"spin": "spin", "block": "futex"}  # waiting strategy -> the native loop that is its limit
_WARMUP_SHARE = 10
_MOST_ROUNDS = 50_000
#: Rough cost of a round trip, to choose how many fit into a budget: waking a sleeper, and copying a byte.
_ROUND_NS = {"spin": 500.0, "block": 60_000.0}
_BYTE_NS = 0.1
_FLOAT_BYTES = 4
#: The program ends by itself when its peer is stopped for 30 s.
_LONGEST_S = 120.0


def measure_limit(cell: Cell, plan: Plan) -> Measurement | str:
    """Return the round trips of the native loop that copies as many bytes as the cell's steps do, or why not."""
    assert cell.wait is not None
    assert cell.size is not None
    actions = cell.size * int(plan.options["act_size"]) * _FLOAT_BYTES
    frame = cell.size * int(plan.options["obs_size"]) * _FLOAT_BYTES if cell.what == "toy:copy" else 0
    typical_ns = _ROUND_NS[cell.wait] + (actions + frame) * _BYTE_NS
    rounds = int(np.clip(plan.effort.budget_s * 1e9 / typical_ns, 100, _MOST_ROUNDS))
    try:
        return ping_pong(_KINDS[cell.wait], rounds, actions, frame)
    except (OSError, RuntimeError) as error:
        return f"no native {cell.wait} limit: {error}"


def ping_pong(kind: str, rounds: int, request_bytes: int = 0, answer_bytes: int = 0) -> Measurement:
    """Return `rounds` round trips of two native processes, the first tenth as warm-up. `kind`: spin or futex.

    Before each call `request_bytes` are copied, before each answer `answer_bytes`. The CPU time is that of all rounds,
    in the share of those behind the warm-up.

    Raises RuntimeError without a C compiler and when a process died.
    """
    with tempfile.TemporaryDirectory(prefix="lucky_ping_pong_") as folder:
        program = Path(folder, "ping_pong")
        program.write_bytes(ping_pong_program())
        program.chmod(0o700)
        command = [str(program), kind, str(rounds), str(request_bytes), str(answer_bytes)]
        done = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=False)
    times = np.frombuffer(done.stdout, np.int64)
    if done.returncode or times.size != rounds + 2:
        raise RuntimeError(f"the {kind} limit ended with code {done.returncode} before its {rounds} rounds were over")
    samples, cut = times[:rounds], rounds // _WARMUP_SHARE
    client, engine = (int(used) * (rounds - cut) // rounds for used in times[rounds:])
    return Measurement(samples[cut:], samples[:cut], client, engine, looked_at=_ITS_NUMBER)


@functools.cache
def ping_pong_program() -> bytes:
    """Return the compiled loops; it is compiled once per process."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("it needs a C compiler (cc, gcc or clang)")
    source = Path(__file__).with_name("ping_pong.c")
    with tempfile.TemporaryDirectory(prefix="lucky_ping_pong_") as folder:
        built = Path(folder, "ping_pong")
        command = [compiler, "-O3", "-std=gnu11", "-o", str(built), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} could not compile {source.name}: {done.stderr.strip()}")
        return built.read_bytes()
