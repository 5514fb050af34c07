"""`lucky-transport run --require`: what is switched is enough; test_launch.py has those that are not."""

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
