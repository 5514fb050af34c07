"""CPU time of this process and of another one.

Linux gives every process a CPU-time clock with nanosecond resolution; its id is made from the pid as the kernel's
`MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)` does, which is what glibc's `clock_getcpuclockid` returns.
`/proc/PID/stat` would count in ticks of 10 ms, longer than ten thousand steps over shared memory take.
"""

from __future__ import annotations

import time
from pathlib import Path

_CPUCLOCK_SCHED = 2
_PROCESSOR = 36  # field 39 of proc_pid_stat(5), counted from the first field behind the command's name
_UTIME, _STIME = 11, 12


def client_cpu_ns() -> int:
    """Return the CPU time of all threads of this process in nanoseconds."""
    return time.process_time_ns()


def engine_cpu_ns(pid: int | None) -> int | None:
    """Return the CPU time of all threads of process `pid`; None for None (no process of its own) and a dead one."""
    if pid is None:
        return None
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def busiest_core(pid: int) -> int | None:
    """Return the core on which the thread of `pid` with the most CPU time ran last; None when it cannot be told."""
    busiest: tuple[int, int] | None = None
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the thread ended between the listing and the reading
            continue
        used = int(fields[_UTIME]) + int(fields[_STIME])
        if busiest is None or used > busiest[0]:
            busiest = (used, int(fields[_PROCESSOR]))
    return None if busiest is None else busiest[1]
