"""Servers of unmodified programs under the launcher: served over shared memory beside their ports, or only there."""

import asyncio
import re
import secrets
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport_stubs.run.servers import SwitchedAioServer
from tests.plugins.stubs.run.conftest import Launch, Start
from tests.support.command import stdout_of
from tests.support.forked_programs import Program
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S

#: A server as programs write it. It prints its ports, one line each, and ends with its stdin.
SYNC = """
import sys
import threading
from concurrent import futures

import grpc

stopping = threading.Event()


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/test.Test/Echo":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        if details.method == "/test.Test/Last":
            return grpc.unary_unary_rpc_method_handler(self.last)

    def last(self, request, context):
        print("called", flush=True)
        stopping.wait()
        return request


def main():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Echo(),))
    for address in sys.argv[1:]:
        print(server.add_insecure_port(address), flush=True)
    server.start()
    print("started", flush=True)
    sys.stdin.read()
    stopped = server.stop(5)
    stopping.set()
    assert stopped.wait(10)
    assert not server.wait_for_termination(10)


main()
"""
AIO = """
import asyncio
import sys

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/test.Test/Echo":
            return grpc.unary_unary_rpc_method_handler(self.echo)
        if details.method == "/test.Test/Last":
            return grpc.unary_unary_rpc_method_handler(self.last)

    async def echo(self, request, context):
        return request

    async def last(self, request, context):
        print("called", flush=True)
        await stopping.wait()
        return request


async def main():
    global stopping
    stopping = asyncio.Event()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    for address in sys.argv[1:]:
        print(server.add_insecure_port(address), flush=True)
    await server.start()
    print("started", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stop = asyncio.create_task(server.stop(5))
    await asyncio.sleep(0)
    stopping.set()
    await stop
    assert not await server.wait_for_termination(10)


asyncio.run(main())
"""


@pytest.fixture
def name() -> str:
    return f"served_{secrets.token_hex(4)}"


@pytest.fixture
def port() -> int:
    return free_port()


class Served:
    """A server program. ports: what it printed."""

    def __init__(self, process: Any) -> None:
        self.process = process
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "started\n")
        self.ports = [int(line) for line in lines if line]

    def end(self) -> str:
        """End the program and return what was said of it."""
        _, said = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, said
        return said


#: Serves at these addresses, with these further options of the launcher: `serve(*options, addresses=(...))`.
Serve = Callable[..., Served]


@pytest.fixture(params=[SYNC, AIO], ids=["threads", "asyncio"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(request.param)
    return str(path)


@pytest.fixture
def serve(program: str, start_switched: Callable[..., Program]) -> Serve:
    """Serve as under the launcher, with these further options."""

    def serve(*options: str, addresses: tuple[str, ...], transport: str = "shm") -> Served:
        return Served(start_switched("--transport", transport, *options, command=[program, *addresses]))

    return serve


@pytest.fixture
def launch_server(program: str, start: Start) -> Serve:
    """Serve under the launcher, with these further options."""

    def serve(*options: str, addresses: tuple[str, ...]) -> Served:
        command = [sys.executable, program, *addresses]
        return Served(start("--transport", "shm", *options, command=command, stdin=subprocess.PIPE))

    return serve


def connect(target: str) -> Any:
    make = lucky_transport_stubs.channel if target.startswith("shm://") else grpc.insecure_channel
    return make(target)


def echo(target: str) -> bytes:
    with connect(target) as channel:
        return channel.unary_unary("/test.Test/Echo")(b"hello", timeout=10)


def is_refused(target: str) -> bool:
    with pytest.raises(grpc.RpcError) as caught:
        echo(target)
    return caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_server_is_called_over_its_port_and_over_shared_memory(launch_server: Serve, name: str, port: int) -> None:
    served = launch_server("--serve", f"127.0.0.1:{port}=shm://{name}", addresses=(f"127.0.0.1:{port}",))
    assert served.ports == [port]
    assert echo(f"127.0.0.1:{port}") == echo(f"shm://{name}") == echo(f"shm://{name}") == b"hello"
    said = served.end()
    assert f"server 127.0.0.1:{port} is served at shm://{name} too" in said
    assert "served 2 calls over shared memory, 1 over gRPC, by 1 process" in said
    assert re.search(rf"  server 127.0.0.1:{port} over shm://{name}\n +2  /test.Test/Echo\n", said)
    assert is_refused(f"shm://{name}")


def test_with_serve_only_nothing_listens_at_the_port(launch_server: Serve, name: str, port: int) -> None:
    served = launch_server("--serve-only", "--serve", f"127.0.0.1:{port}=shm://{name}", addresses=(f"[::]:{port}",))
    assert served.ports == [port]
    assert echo(f"shm://{name}") == b"hello"
    assert is_refused(f"127.0.0.1:{port}")
    assert f"server [::]:{port} is served at shm://{name}\n" in served.end()


@pytest.mark.parametrize("scheme", ["shm://", "127.0.0.1:"])
def test_a_call_under_way_ends_well_when_its_server_stops(serve: Serve, name: str, port: int, scheme: str) -> None:
    served = serve("--serve", f"*=shm://{name}", addresses=(f"127.0.0.1:{port}",))
    with connect(f"{scheme}{port if scheme.startswith('127') else name}") as channel:
        call = channel.unary_unary("/test.Test/Last").future(b"well", timeout=PATIENCE_S)
        assert served.process.stdout.readline() == "called\n"
        served.end()
        assert call.result() == b"well"


@pytest.mark.parametrize("only", [False, True])
def test_port_0_keeps_the_number_that_it_became(serve: Serve, name: str, only: bool) -> None:
    options = (*(["--serve-only"] if only else []), "--serve", f"*=shm://{name}_{{port}}")
    served = serve(*options, addresses=("127.0.0.1:0", "localhost:0"))
    assert len(set(served.ports)) == 2
    for port in served.ports:
        assert echo(f"shm://{name}_{port}") == b"hello"
        with socket.socket() as another, pytest.raises(OSError, match="Address already in use"):
            another.bind(("0.0.0.0", port))
    served.end()


def test_a_server_of_several_ports_is_reported_per_port(serve: Serve, name: str) -> None:
    served = serve("--serve", f"*=shm://{name}_{{port}}", addresses=("127.0.0.1:0", "[::]:0"))
    one, other = served.ports
    for target in (f"shm://{name}_{one}", *[f"shm://{name}_{other}"] * 2, *[f"127.0.0.1:{one}"] * 3):
        assert echo(target) == b"hello"
    said = served.end()
    assert f"  server 127.0.0.1:{one} over shm://{name}_{one}\n             1  /test.Test/Echo\n" in said
    assert f"  server [::]:{other} over shm://{name}_{other}\n             2  /test.Test/Echo\n" in said
    both = f"  server 127.0.0.1:{one}, [::]:{other} over gRPC: calls that came to these ports"
    assert f"{both}\n             3  /test.Test/Echo\n" in said


def test_unix_sockets_are_served_too(serve: Serve, name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    served = serve("--serve", f"unix:{path}=shm://{name}", addresses=(f"unix:{path}", f"unix-abstract:{name}"))
    assert echo(f"unix:{path}") == echo(f"shm://{name}") == echo(f"unix-abstract:{name}") == b"hello"
    assert f"server unix-abstract:{name} is served over gRPC only: the map does not name it" in served.end()


def test_with_the_transport_grpc_calls_are_counted_and_nothing_is_moved(serve: Serve, name: str, port: int) -> None:
    served = serve("--map", f"*=shm://{name}", addresses=(f"127.0.0.1:{port}",), transport="grpc")
    assert echo(f"127.0.0.1:{port}") == b"hello"
    assert is_refused(f"shm://{name}")
    said = served.end()
    assert "served 0 calls over shared memory, 1 over gRPC, by 1 process" in said
    assert f"server 127.0.0.1:{port} over gRPC: calls that came to the port\n" in said


@pytest.mark.parametrize("only", [False, True], ids=["beside", "only"])
def test_several_processes_at_one_port_share_the_load(serve: Serve, name: str, port: int, only: bool) -> None:
    options = (*(["--serve-only"] if only else []), "--serve", f"*=shm://{name}")
    addresses = (f"127.0.0.1:{port}", f"[::]:{port}", f"localhost:{port}")
    servers = [serve(*options, addresses=(address,)) for address in addresses]
    for _ in range(60):
        assert echo(f"shm://{name}") == b"hello"
    counts = [
        int(re.search(r"served (\d+) calls over shared memory, 0 over gRPC", server.end())[1])  # type: ignore[index]
        for server in servers
    ]
    assert sum(counts) == 60
    assert all(counts)
    assert is_refused(f"shm://{name}")


def test_of_two_ports_at_one_endpoint_the_second_stays_on_grpc(serve: Serve, name: str, port: int) -> None:
    first = serve("--serve", f"*=shm://{name}", addresses=(f"127.0.0.1:{port}",))
    second = serve("--serve", f"*=shm://{name}", addresses=("127.0.0.1:0",))
    said = f"is served over gRPC only: Failed to bind to address shm://{name}: the process of pid"
    assert echo(f"shm://{name}") == b"hello"
    assert said in second.end()
    assert said not in first.end()


STOPPING = """
import asyncio

import grpc


class Slow(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.slow)

    async def slow(self, request, context):
        await asyncio.sleep(0.2)
        return request


async def main(grace, with_a_call, done):
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Slow(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    async def call():
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary("/test.Test/Slow")(b"")

    async def stop():
        await server.stop(grace)
        done.append("stopped")
        await asyncio.sleep(0)
        done.append("cleaned up")

    tasks = [asyncio.create_task(call())] if with_a_call else []
    await asyncio.sleep(0.05)
    tasks.append(asyncio.create_task(stop()))
    await server.wait_for_termination()
    done.append("terminated")  # the loop ends with this coroutine, whatever else it runs


for grace in (5, 0.01, 0, None):
    for with_a_call in (False, True):
        for _ in range(3):
            done = []
            asyncio.run(main(grace, with_a_call, done))
            print(grace, with_a_call, *sorted(done), sep=", ")
"""


def test_what_stands_behind_a_stop_runs_when_the_program_waits_for_the_termination(
    run_switched: Launch, name: str, tmp_path: Path
) -> None:
    program = tmp_path / "stopping.py"
    program.write_text(STOPPING)
    done = run_switched("--transport", "shm", "--map", f"*=shm://{name}_{{port}}", command=[str(program)])
    lines = stdout_of(done).splitlines()
    assert len(lines) == 24
    assert all(line.endswith(", cleaned up, stopped, terminated") for line in lines), lines


def test_while_calls_over_grpc_end_new_ones_in_shared_memory_are_refused(name: str) -> None:
    codes: list[grpc.StatusCode] = []

    class StopsAfterACall:
        async def stop(self, grace: float | None) -> None:
            async with lucky_transport_stubs.aio_channel(f"shm://{name}") as channel:
                with pytest.raises(grpc.RpcError) as caught:
                    await channel.unary_unary("/test.Test/Echo")(b"")
                codes.append(caught.value.code())

        def __del__(self) -> None:
            pass

    async def serve() -> None:
        ours = lucky_transport_stubs.aio_server()
        ours.add_insecure_port(f"shm://{name}")
        await ours.start()
        await SwitchedAioServer(StopsAfterACall(), ours, Mock()).stop(5)

    asyncio.run(serve())
    assert codes == [grpc.StatusCode.UNAVAILABLE]


@pytest.mark.parametrize("module", ["grpc", "grpc.aio"])
def test_a_server_whose_finalizer_runs_terminates(run_switched: Launch, name: str, tmp_path: Path, module: str) -> None:
    program = tmp_path / "deleted.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio
        from concurrent import futures

        import grpc


        async def main():
            server = grpc.aio.server()
            server.add_insecure_port("127.0.0.1:0")
            await server.start()
            server.__del__()
            assert not await server.wait_for_termination(30)


        if "{module}" == "grpc.aio":
            asyncio.run(main())
        for address in () if "{module}" == "grpc.aio" else ((), ("127.0.0.1:0",)):
            server = grpc.server(futures.ThreadPoolExecutor(1))
            for each in address:
                server.add_insecure_port(each)
            server.start()
            server.__del__()
            assert not server.wait_for_termination(30)
        """)
    )
    done = run_switched("--transport", "shm", "--map", f"*=shm://{name}_{{port}}", command=[str(program)])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("mapped", "status"), [("*", 0), ("elsewhere:1", 125)])
def test_a_port_that_is_served_there_is_enough_for_require(launch: Launch, name: str, mapped: str, status: int) -> None:
    pair = f"{mapped}=shm://{name}"
    command = [sys.executable, "-c", SYNC, "localhost:0"]
    done = launch("--transport", "shm", "--map", pair, "--require", command=command)
    assert done.returncode == status, done.stderr
    assert ("add --map localhost:" in done.stderr) == bool(status)
