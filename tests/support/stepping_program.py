"""A program that steps agent_0 of an engine, each time that it is asked to."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PROGRAM = """
import sys
import lucky_transport_stubs
from lucky_transport_grpc import _pb
from lucky_transport_grpc.runtime import grpc
step = _pb.methods()["/hazel.rpc.AgentService/Step"]
channel = lucky_transport_stubs.channel(sys.argv[1])
call = channel.unary_unary(step.path, step.request.SerializeToString, step.response.FromString)
for _ in sys.stdin:
    try:
        call(step.request(agent_name="agent_0", actions=[0, 0]), timeout=20)
        print("stepped", flush=True)
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)
"""


@contextmanager
def stepping(endpoint: str) -> Iterator[Callable[[], str]]:
    """Give a function that lets another process step the engine, and returns the line that says what came of it."""
    command = [sys.executable, "-c", _PROGRAM, endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def step() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline()

        yield step
