"""One side of a case, in a process of its own: `side.py CASE server|served|client PORT [CALLS ROUNDS]`.

A case has `register(server)`, which adds what a server of gRPC at 127.0.0.1:PORT serves, or, where it is another
server, `server(port)`, a context in which that is served; and `client(port)`, a context that gives three functions:
what is to be equal (any JSON), a small call, and one round of the program's own loop. This file speaks to the runner by
lines of JSON; what a program prints goes to stderr. The end of stdin ends a server; one that is `served` runs until
SIGTERM.
"""

import contextlib
import importlib
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path


def main() -> None:
    """Be the side that the command line names."""
    case, side, port, *counts = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(**values: object) -> None:
        replies.write(json.dumps(values) + "\n")

    module = importlib.import_module(case)
    if side == "served":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        with _served(module, int(port)):
            signal.pause()
    if side == "server":
        with _served(module, int(port)):
            say(ready=True)
            for _ in sys.stdin:
                say(cpu_s=cpu_s())
        return
    with module.client(int(port)) as (equal, call, one_round):
        say(equal=equal())
        if counts and sys.stdin.readline():
            say(**timed(call, int(counts[0]), one_round, int(counts[1])))
    say(ended=True)


def _served(module, port):
    if hasattr(module, "server"):
        return module.server(port)
    from serving import serving  # there are programs that have no gRPC

    return serving(port, module.register)


def timed(call, calls, one_round, rounds):
    """Return how long calls and rounds take, and the CPU seconds of this process for them."""
    for _ in range(calls // 10):
        call()
    began_cpu, times = cpu_s(), []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(rounds):
        one_round()
    rate = rounds / (time.perf_counter() - began)
    return {"p50_us": statistics.median(times) * 1e6, "rounds_per_s": rate, "cpu_s": cpu_s() - began_cpu}


def cpu_s():
    """Return the CPU seconds of this process, of its children that have ended, and of what runs below it."""
    return sum(os.times()[:4]) + sum(map(_living_cpu_s, _children(os.getpid())))


def _living_cpu_s(pid):
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK") + sum(map(_living_cpu_s, _children(pid)))
    except OSError:  # it has just ended
        return 0


def _children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            found += (task / "children").read_text().split()
    return found


if __name__ == "__main__":
    main()
