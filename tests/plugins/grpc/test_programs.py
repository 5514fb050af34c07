"""Connections of one program drive together; other programs are refused while any of them is there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.serving import Serving
from lucky_transport.shm.liveness import start_time
from lucky_transport_grpc import _pb
from lucky_transport_grpc.peers import program_of
from lucky_transport_grpc.runtime import grpc

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp here")

STEP = "/hazel.rpc.AgentService/Step"

STEPPER = """
import sys
import grpc
from lucky_transport_grpc import _pb
found = _pb.methods()["/hazel.rpc.AgentService/Step"]
channel = grpc.insecure_channel(sys.argv[1])
call = channel.unary_unary(found.path, found.request.SerializeToString, found.response.FromString)
for _ in sys.stdin:
    try:
        call(found.request(agent_name="agent_0", actions=[0, 0]), timeout=20)
        print("stepped", flush=True)
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)
"""


@pytest.fixture
def serving(serve: Callable[..., Serving]) -> Serving:
    return serve(idle_s=3600.0)


@pytest.fixture
def other_program(serving: Serving) -> Iterator[Callable[[], str]]:
    """Return a function that lets another process step agent_0, and says what came of it."""
    with subprocess.Popen(
        [sys.executable, "-c", STEPPER, serving.endpoints[0].address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def step() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline()

        yield step


def _step(channel: Any) -> Any:
    found = _pb.methods()[STEP]
    call = channel.unary_unary(STEP, found.request.SerializeToString, found.response.FromString)
    return call(found.request(agent_name="agent_0", actions=[0, 0]), timeout=PATIENCE_S)


def test_a_blocking_and_an_asyncio_channel_of_one_program_both_step(serving: Serving) -> None:
    address = serving.endpoints[0].address

    async def alternate(blocking: Any) -> list[int]:
        numbers: list[int] = []
        async with grpc.aio.insecure_channel(address) as channel:
            for _ in range(3):
                numbers.append((await _step(channel)).observation.frame_number)
                numbers.append(_step(blocking).observation.frame_number)
        return numbers

    with grpc.insecure_channel(address) as blocking:
        first = _step(blocking).observation.frame_number
        assert asyncio.run(alternate(blocking)) == [first + count for count in range(1, 7)]


def test_another_program_is_refused_until_the_last_connection_has_ended(
    serving: Serving, stub: Any, other_program: Callable[[], str]
) -> None:
    one, two = stub(serving), stub(serving)
    for ours in (one, two, one):
        ours.call("Step")
    assert other_program().startswith("RESOURCE_EXHAUSTED engine 'toy' is driven by grpc client ipv4:")
    one.channel.close()
    two.call("Step")
    assert other_program().startswith("RESOURCE_EXHAUSTED")
    two.channel.close()
    until(lambda: other_program() == "stepped\n")
    with pytest.raises(grpc.RpcError):
        stub(serving).call("Step")  # now this program is the other one


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_connection_tells_the_process_that_made_it(family: int, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {host} here: {error}")
    with server:
        port = server.getsockname()[1]
        kind, shown = ("ipv4", host) if family == socket.AF_INET else ("ipv6", f"%5B{host}%5D")
        with socket.create_connection((host, port)) as client:
            accepted, _ = server.accept()
            peer = f"{kind}:{shown}:{client.getsockname()[1]}"
            expected = f"{os.getpid()}:{start_time(os.getpid())}"
            assert program_of(peer, port) == expected
            with subprocess.Popen(  # a child that has the connection too did not make it
                [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[client.fileno()]
            ) as child:
                assert program_of(peer, port) == expected
                child.kill()
            assert program_of(peer, port + 1) == ""
            accepted.close()
        assert program_of(peer, port) == ""


@pytest.mark.parametrize(
    "peer", ["unix:", "ipv4:127.0.0.1", "ipv4:127.0.0.1:x", "ipv4:127.0.0.1:1", "ipv6:%5Bx%5D:1", "somewhere", ""]
)
def test_a_peer_that_is_no_connection_of_this_host_has_no_known_program(peer: str) -> None:
    assert program_of(peer, 50051) == ""


def test_a_client_of_another_host_is_not_taken_for_a_local_one_with_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert program_of(f"ipv4:192.0.2.7:{client.getsockname()[1]}", port) == ""


def test_without_a_table_no_program_is_known(tmp_path: Path) -> None:
    assert program_of("ipv4:127.0.0.1:1", 50051, (str(tmp_path / "none"),)) == ""
    with suppress(OSError):
        assert program_of("ipv4:127.0.0.1:1", 50051, (str(tmp_path),)) == ""
