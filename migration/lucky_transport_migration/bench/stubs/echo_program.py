"""A gRPC server and its client as users have them, each a program of its own that knows nothing of lucky_transport.

    echo_program.py serve READY                write the port into the file READY, serve until stdin ends
    echo_program.py call PORT SECONDS RESULT   call one after the other for that long; how long each took, and the CPU
                                               time of all, goes into the file RESULT

An answer that is not the one that was due ends the client with an error.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from echo_stub import EchoServicer, EchoStub, add_EchoServicer_to_server
from google.protobuf.wrappers_pb2 import StringValue

_CHARS = 100
_WORKERS = 16


class Greeter(EchoServicer):
    """Answers with what it was asked."""

    def Ask(self, request: Any, context: Any) -> Any:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    AskInline = Send = Watch = Ask


def serve(ready: Path) -> None:
    """Serve at a free port until stdin ends."""
    server = grpc.server(ThreadPoolExecutor(_WORKERS))
    add_EchoServicer_to_server(Greeter(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ready.write_text(str(port))
    sys.stdin.read()
    server.stop(0).wait()


def call(port: str, seconds: float, result: Path) -> None:
    """Call the server of that port; a tenth of the time before is warm-up."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = EchoStub(channel).Ask
        warmup = _calls(ask, seconds / 10)
        cpu = time.process_time_ns()
        samples = _calls(ask, seconds)
        used = time.process_time_ns() - cpu
        result.write_text(json.dumps({"samples_ns": samples, "warmup_ns": warmup, "cpu_ns": used}))


def _calls(ask: Any, seconds: float) -> list[int]:
    samples: list[int] = []
    now = time.perf_counter_ns()
    end = now + int(seconds * 1e9)
    while now < end or not samples:
        start = time.perf_counter_ns()
        question = f"{len(samples):0{_CHARS}d}"
        answer = ask(StringValue(value=question))
        samples.append((now := time.perf_counter_ns()) - start)
        if answer.value != question:
            raise SystemExit(f"{answer.value} came where {question} was due")
    return samples


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]))
    else:
        call(sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
