"""`lucky-transport run --require`: a program that stayed on gRPC, unseen, ends with a status of its own."""

from __future__ import annotations

import secrets
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import lucky_transport_stubs
from tests.exhaustive.plugins.stubs.run.test_servers import SYNC
from tests.support.fixtures.plugins_stubs_run import Launch

CALL = """
import sys

import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    assert channel.unary_unary("/t.T/Echo")(b"x", timeout=30) == b"x"
sys.exit(int(sys.argv[2]))
"""


def test_it_fails_and_names_the_map_when_every_call_stayed_on_grpc(launch: Launch, grpc_port: int) -> None:
    target = f"localhost:{grpc_port}"
    command = [sys.executable, "-c", CALL, target, "0"]
    options = ("--transport", "shm", "--endpoint", "shm://weather", "--require")
    done = launch(*options, command=command, LUCKY_RUN_REPORT="")
    assert done.returncode == 125
    expected = (
        f"nothing was switched: {target} (the map does not name it); to switch it, add --map {target}=shm://weather"
    )
    assert done.stderr == f"Error: {expected}\n"
    quiet = launch(*options, "--quiet", command=command, LUCKY_RUN_REPORT="")
    assert (quiet.returncode, quiet.stderr) == (125, done.stderr)


def test_without_it_the_exit_status_is_the_programs_own(launch: Launch, grpc_port: int) -> None:
    command = [sys.executable, "-c", CALL, f"localhost:{grpc_port}", "0"]
    assert launch("--transport", "shm", "--endpoint", "shm://weather", command=command).returncode == 0


def test_a_program_that_fails_keeps_its_exit_status(launch: Launch, grpc_port: int) -> None:
    command = [sys.executable, "-c", CALL, f"localhost:{grpc_port}", "7"]
    done = launch("--transport", "shm", "--endpoint", "shm://weather", "--require", command=command)
    assert done.returncode == 7


def test_a_program_without_a_call_fails_too(launch: Launch) -> None:
    done = launch("--endpoint", "shm://weather", "--require", command=[sys.executable, "-c", ""])
    assert done.returncode == 125
    assert "no gRPC call was counted, and no port was bound" in done.stderr


def test_a_call_over_shared_memory_is_enough(launch: Launch) -> None:
    name = f"required_{secrets.token_hex(4)}"
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request)}
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    server.add_insecure_port(f"shm://{name}")
    server.start()
    try:
        command = [sys.executable, "-c", CALL, "localhost:50071", "0"]
        done = launch("--transport", "shm", "--map", f"localhost:50071=shm://{name}", "--require", command=command)
    finally:
        server.stop(None)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("mapped", "status"), [("*", 0), ("elsewhere:1", 125)])
def test_a_port_that_is_served_there_is_enough(launch: Launch, mapped: str, status: int) -> None:
    pair = f"{mapped}=shm://required_{secrets.token_hex(4)}"
    command = [sys.executable, "-c", SYNC, "localhost:0"]
    done = launch("--transport", "shm", "--map", pair, "--require", command=command)
    assert done.returncode == status, done.stderr
    assert ("add --map localhost:" in done.stderr) == bool(status)


def test_it_is_refused_where_nothing_is_to_be_switched(launch: Launch) -> None:
    done = launch("--transport", "grpc", "--require", command=[sys.executable, "-c", ""])
    assert done.returncode == 2
    assert "--transport grpc switches nothing" in done.stderr
