"""What many clients get from one relay, and what it holds for them: the second table of docs/how-to/relay.md.

    python tests/plugins/stubs/relay/measure_clients.py
    python tests/plugins/stubs/relay/measure_clients.py --cycles 10000

Each client is a process of its own that calls without a pause. Rounds are in pairs (direct, relay, relay, direct), so
that a machine that is busy is so for both. With --cycles one client connects, calls once and closes so often, and the
relay's descriptors, threads and memory are printed on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lucky_transport_stubs
from lucky_transport.process import unique_name

SERVER = """
from concurrent.futures import ThreadPoolExecutor
import grpc
handlers = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
server = grpc.server(ThreadPoolExecutor(16))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", handlers),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
CLIENT = """
import json, sys, time
import grpc
target, seconds = sys.argv[1], float(sys.argv[2])
if target.startswith("shm://"):
    import lucky_transport_stubs
    channel = lucky_transport_stubs.channel(target)
else:
    channel = grpc.insecure_channel(target)
call, request, times = channel.unary_unary("/t.Test/Echo"), b"x" * 100, []
call(request, timeout=60)
print("ready", flush=True)
sys.stdin.readline()
end = time.perf_counter() + seconds
while (start := time.perf_counter()) < end:
    call(request, timeout=60)
    times.append(time.perf_counter() - start)
print(json.dumps(times), flush=True)
sys.stdin.readline()
"""


def started(stack: ExitStack, command: list[str]) -> subprocess.Popen[str]:
    """Start a program that ends with the stack."""
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    return process


def said(process: subprocess.Popen[str]) -> str:
    """Return its next line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    """Have it go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def held(pid: int) -> dict[str, float]:
    """Return what a process holds: descriptors, threads, MiB of its own and of what it shares, processor seconds."""
    proc = Path(f"/proc/{pid}")
    kilobytes = next(line for line in (proc / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    times = (proc / "stat").read_text().rpartition(")")[2].split()
    return {
        "descriptors": len(os.listdir(proc / "fd")),
        "threads": len(os.listdir(proc / "task")),
        "mib": int(kilobytes.split()[1]) / 1024,
        "cpu": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
    }


def round_of(target: str, count: int, seconds: float, pid: int) -> dict[str, float]:
    """Have `count` clients call for so long; return their calls a second and times, and what process `pid` held."""
    with ExitStack() as stack:
        clients = [started(stack, [sys.executable, "-c", CLIENT, target, str(seconds)]) for _ in range(count)]
        assert all(said(one) == "ready" for one in clients)
        before = held(pid)
        for one in clients:
            tell(one)
        times = sorted(seconds for one in clients for seconds in json.loads(said(one)))
        after = held(pid)
        return {
            "rate": len(times) / seconds,
            "p50": statistics.median(times) * 1e6,
            "p99": times[int(len(times) * 0.99)] * 1e6,
            "cpu": (after["cpu"] - before["cpu"]) / len(times) * 1e6,
            **{key: after[key] for key in ("descriptors", "threads", "mib")},
        }


def many(counts: list[int], seconds: float, direct: str, relayed: str, relay: int) -> None:
    """Print the table."""
    print("| clients | | calls a second | p50 | p99 | relay's CPU a call | descriptors | threads | memory |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for count in counts:
        found: dict[str, list[dict[str, float]]] = {direct: [], relayed: []}
        for target in (direct, relayed, relayed, direct):
            found[target].append(round_of(target, count, seconds, relay))
        for name, target in (("direct", direct), ("relay", relayed)):
            row = {key: statistics.mean(one[key] for one in found[target]) for key in found[target][0]}
            text = f"| {count} | {name} | {row['rate']:,.0f} | {row['p50']:,.0f} µs | {row['p99']:,.0f} µs |"
            if target == relayed:
                text += (
                    f" {row['cpu']:,.0f} µs | {row['descriptors']:.0f} | {row['threads']:.0f} | {row['mib']:.1f} MiB |"
                )
            else:
                text += " | | | |"
            print(f"{text}  load {os.getloadavg()[0]:.1f}", flush=True)


def cycles(count: int, endpoint: str, relay: int) -> None:
    """Connect, call and close so often; print what the relay holds on the way."""
    start = time.perf_counter()
    for number in range(count + 1):
        if number % max(1, count // 5) == 0:
            shm = len(os.listdir("/dev/shm"))
            now = held(relay)
            print(number, {key: round(value, 1) for key, value in now.items()}, f"/dev/shm {shm}", flush=True)
        with lucky_transport_stubs.channel(endpoint) as channel:
            channel.unary_unary("/t.Test/Echo")(b"x", timeout=60)
    print(f"{(time.perf_counter() - start) / count * 1e3:.2f} ms a cycle, load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What many clients get from one relay.")
    parser.add_argument("--clients", default="1,16,60", help="how many at once (default: %(default)s)")
    parser.add_argument("--seconds", default=3.0, type=float, help="of each round (default: %(default)s)")
    parser.add_argument("--cycles", default=0, type=int, help="connect and close so often instead")
    given: Any = parser.parse_args()
    with ExitStack() as stack:
        port = said(started(stack, [sys.executable, "-c", SERVER]))
        endpoint = f"shm://{unique_name()}"
        command = [sys.executable, "-m", "lucky_transport", "relay", f"grpc://127.0.0.1:{port}", "--endpoint", endpoint]
        relay = started(stack, command)
        assert said(relay).startswith("ready")
        if given.cycles:
            cycles(given.cycles, endpoint, relay.pid)
        else:
            counts = [int(count) for count in given.clients.split(",")]
            many(counts, given.seconds, f"127.0.0.1:{port}", endpoint, relay.pid)


if __name__ == "__main__":
    main()
