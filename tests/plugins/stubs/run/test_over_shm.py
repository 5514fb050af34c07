"""A program under the launcher whose calls go over shared memory, with no gRPC server anywhere."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from tests.plugins.stubs.run.conftest import Launch, Python

pytest.importorskip("grpc")


SCHEMA = "/hazel.rpc.AgentService/GetAgentSchema"

CALL = f"""
import sys
def call(times=1, target="127.0.0.1:50051"):
    import grpc
    with grpc.insecure_channel(target) as channel:
        schema = channel.unary_unary("{SCHEMA}", _registered_method=True)
        for _ in range(times):
            assert schema(b"", timeout=20)
"""

FAIL = """
import grpc, sys
with grpc.insecure_channel(sys.argv[1]) as channel:
    try:
        channel.unary_unary("/a.B/C")(b"")
    except grpc.RpcError as error:
        print(error.code().name)
"""


LOOK = """
import grpc
channel = grpc.insecure_channel("127.0.0.1:50051")
print(isinstance(channel, grpc.Channel), repr(channel._channel.target().removeprefix(b"dns:///")))
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Where an engine answers, over shared memory alone."""
    endpoint = f"shm://{unique_name()}_7"
    with lucky_transport.serve("toy", endpoint):
        yield endpoint


@pytest.fixture
def run_code(run_switched: Launch, tmp_path: Path) -> Launch:
    """Run code to its end: `run_code(*options, code=..., arguments=[...])`."""

    def run(*options: str, code: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(code)
        return run_switched(*options, command=[str(path), *arguments])

    return run


@pytest.mark.parametrize("transport", ["grpc", "shm", "auto", "staged"])
def test_channels_are_of_grpcs_class_and_say_what_was_dialled(run_code: Launch, endpoint: str, transport: str) -> None:
    done = run_code("--transport", transport, "--endpoint", endpoint, code=LOOK)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True b'127.0.0.1:50051'\n"


def test_the_default_target_goes_over_shared_memory(launch: Launch, python: Python, endpoint: str) -> None:
    done = launch("--transport", "shm", "--endpoint", endpoint, command=python(f"{CALL}\ncall(5)"))
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:50051 goes to {endpoint}" in done.stderr
    assert done.stderr.endswith(
        "lucky-transport: 5 calls over shared memory, 0 over gRPC, by 1 process\n"
        f"  127.0.0.1:50051 over {endpoint}\n"
        f"             5  {SCHEMA}\n"
    )


def test_every_way_to_a_channel_leads_there(run_code: Launch, endpoint: str) -> None:
    code = f"""
import asyncio, sys, warnings
warnings.simplefilter("ignore")
import grpc
from grpc import experimental, insecure_channel, secure_channel
from grpc.aio import insecure_channel as aio_channel
method = "{SCHEMA}"
class Passing(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, details, request): return continuation(details, request)
with secure_channel("localhost:50051", grpc.ssl_channel_credentials()) as channel:
    assert channel.unary_unary(method)(b"", timeout=20)
with insecure_channel("dns:///localhost:50051") as channel:
    assert channel.unary_unary(method).with_call(b"", timeout=20)[0]
    assert channel.unary_unary(method).future(b"", timeout=20).result(20)
    assert grpc.intercept_channel(channel, Passing()).unary_unary(method)(b"", timeout=20)
for registered in False, True:
    assert experimental.unary_unary(b"", "[::1]:50051", method, insecure=True, _registered_method=registered)
async def use():
    async with aio_channel("ipv4:127.0.0.1:50051") as channel:
        assert await asyncio.wait_for(channel.unary_unary(method)(b""), 20)
asyncio.run(use())
"""
    done = run_code("--transport", "shm", "--endpoint", endpoint, code=code)
    assert done.returncode == 0, done.stderr
    assert "7 calls over shared memory, 0 over gRPC" in done.stderr


@pytest.mark.parametrize("target", ["127.0.0.1:50051", "[::1]:1"])
def test_an_absent_engine_is_unavailable_and_nothing_falls_back(run_code: Launch, target: str, grpc_port: int) -> None:
    options = ("--transport", "shm", "--map", f"*=shm://{unique_name()}")
    for dialled in (target, f"127.0.0.1:{grpc_port}"):
        assert run_code(*options, code=FAIL, arguments=(dialled,)).stdout == "UNAVAILABLE\n"


def test_engines_are_told_apart_by_the_port_that_is_dialled(run_code: Launch, endpoint: str) -> None:
    options = ("--transport", "shm", "--map", f"127.0.0.1:*={endpoint.removesuffix('_7')}_{{port}}")
    done = run_code(*options, code=f"{CALL}\ncall(target='localhost:7')")
    assert done.returncode == 0, done.stderr
    assert run_code(*options, code=FAIL, arguments=("localhost:8",)).stdout == "UNAVAILABLE\n"
