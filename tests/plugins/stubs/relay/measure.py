"""What a relay costs and saves a client: the table of docs/how-to/relay.md.

    python tests/plugins/stubs/relay/measure.py

A server of gRPC's own and the relays run in processes of their own. Each row is measured in pairs (direct, relay,
relay, direct), so that a machine that is busy is so for both; the ratio is the one of the medians.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

import lucky_transport_stubs
from lucky_transport.process import unique_name

sys.path.insert(0, str(Path(__file__).parents[1]))
from programs.certificates import CERTIFICATE, KEY

SERVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
sys.path.insert(0, sys.argv[1])
from programs.certificates import CERTIFICATE, KEY
def many(request, context):
    for _ in range(2000):
        yield request
handlers = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
            "Many": grpc.unary_stream_rpc_method_handler(many)}
server = grpc.server(ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", handlers),))
print(server.add_insecure_port("127.0.0.1:0"))
print(server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(KEY, CERTIFICATE)])), flush=True)
server.start()
server.wait_for_termination()
"""
CALLS, WARM, CHANNELS = 1000, 200, 20
Connect = Callable[[], Any]


def small_call(connect: Connect) -> tuple[float, float]:
    """Return the median of a call of 100 bytes, and the processor time of this process for each, in microseconds."""
    with connect() as channel:
        call = channel.unary_unary("/t.Test/Echo")
        for _ in range(WARM):
            call(b"x" * 100, timeout=60)
        times, busy = [], time.process_time()
        for _ in range(CALLS):
            start = time.perf_counter()
            call(b"x" * 100, timeout=60)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e6, (time.process_time() - busy) / CALLS * 1e6


def stream(connect: Connect) -> tuple[float, float]:
    """Return the time and the processor time of each message of a stream of 2,000 of 1 kB."""
    with connect() as channel:
        busy, start = time.process_time(), time.perf_counter()
        count = sum(1 for _ in channel.unary_stream("/t.Test/Many")(b"x" * 1000, timeout=60))
        return (time.perf_counter() - start) / count * 1e6, (time.process_time() - busy) / count * 1e6


def first_call(connect: Connect) -> tuple[float, float]:
    """Return the time, and the processor time, until a new channel has its first answer."""
    times, busy = [], time.process_time()
    for _ in range(CHANNELS):
        start = time.perf_counter()
        with connect() as channel:
            channel.unary_unary("/t.Test/Echo")(b"", timeout=60)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6, (time.process_time() - busy) / CHANNELS * 1e6


def row(title: str, of: Callable[[Connect], tuple[float, float]], direct: Connect, relayed: Connect) -> str:
    """Return a row of the table: time and the client's processor time, direct and through the relay, and the ratios."""
    found: dict[Connect, list[tuple[float, float]]] = {direct: [], relayed: []}
    for connect in (direct, relayed, relayed, direct) * 3:
        found[connect].append(of(connect))
    (time_a, busy_a), (time_b, busy_b) = (
        tuple(map(statistics.median, zip(*found[connect], strict=True))) for connect in (direct, relayed)
    )
    times = f"{time_a:,.0f} µs | {time_b:,.0f} µs | {time_b / time_a:.2f}"
    return f"| {title} | {times} | {busy_a:,.0f} µs | {busy_b:,.0f} µs | {busy_b / busy_a:.2f} |"


def started(stack: ExitStack, command: list[str], lines: int) -> list[str]:
    """Start a program that ends with the stack; return its first lines."""
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(lines)]


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        certificate = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "it.pem"
        certificate.write_bytes(CERTIFICATE)
        folder = str(Path(__file__).parents[1])
        port, secure = started(stack, [sys.executable, "-c", SERVER, folder], 2)

        def relay(upstream: str) -> Connect:
            name = f"shm://{unique_name()}"
            started(stack, [sys.executable, "-m", "lucky_transport", "relay", upstream, "--endpoint", name], 1)
            return lambda: lucky_transport_stubs.channel(name)

        credentials = grpc.ssl_channel_credentials(CERTIFICATE)
        unique = (("grpc.use_local_subchannel_pool", 1),)
        pairs = {
            "": (lambda: grpc.insecure_channel(f"127.0.0.1:{port}", unique), relay(f"grpc://127.0.0.1:{port}")),
            ", TLS": (
                lambda: grpc.secure_channel(f"localhost:{secure}", credentials, unique),
                relay(f"grpcs://localhost:{secure}?ca={certificate}"),
            ),
        }
        print(
            "| | direct | relay | ratio | client's CPU, direct | relay | ratio |\n|---|---:|---:|---:|---:|---:|---:|"
        )
        for title, of in (("call, 100 bytes", small_call), ("stream, 1 kB", stream), ("first call", first_call)):
            for kind, (direct, relayed) in pairs.items():
                print(row(title + kind, of, direct, relayed), flush=True)


if __name__ == "__main__":
    assert KEY
    main()
