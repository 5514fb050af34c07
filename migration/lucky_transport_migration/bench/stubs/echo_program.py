"""A gRPC server and its client as users have them, each a program of its own that knows nothing of lucky_transport.

    echo_program.py serve                      say `ready PORT`, serve until stdin ends
    echo_program.py call PORT SECONDS RESULT   call one after the other for that long; how many calls, in how long and
                                               with how much CPU time goes into the file RESULT

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


def serve() -> None:
    """Serve at a free port until stdin ends."""
    server = grpc.server(ThreadPoolExecutor(_WORKERS))
    add_EchoServicer_to_server(Greeter(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"ready {port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


def call(port: str, seconds: float, result: Path) -> None:
    """Call the server of that port; a tenth of the time before is warm-up."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = EchoStub(channel).Ask
        _calls(ask, seconds / 10)
        cpu, start = time.process_time_ns(), time.perf_counter_ns()
        calls = _calls(ask, seconds)
        took, used = time.perf_counter_ns() - start, time.process_time_ns() - cpu
        result.write_text(json.dumps({"n": calls, "took_ns": took, "cpu_ns": used}))


def _calls(ask: Any, seconds: float) -> int:
    n, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or not n:
        question = f"{n:0{_CHARS}d}"
        answer = ask(StringValue(value=question)).value
        if answer != question:
            raise SystemExit(f"{answer} came where {question} was due")
        n += 1
    return n


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        call(sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
