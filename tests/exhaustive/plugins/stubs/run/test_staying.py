"""What a process cannot have over shared memory stays on gRPC, with a line that names the reason."""

import re
import secrets
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.exhaustive.plugins.stubs.run.test_servers import AIO, Served, echo
from tests.plugins.stubs.run.conftest import Launch, Start
from tests.support.certificates import CERTIFICATE, KEY

#: A server and its client; what may keep them from shared memory stands in front.
PROGRAM = """
from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


port = 0
for _ in range(2):  # it stops, and starts again
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/test.Test/Echo")(b"x", timeout=30) == b"x"
    assert server.stop(5).wait(10)
"""

#: All that follows runs in a forked child, which gRPC and what switches it were imported for.
FORKED = """
import os

import grpc

if child := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

#: What gevent's monkey.patch_all() leaves behind, as far as we look.
GREENLETS = """
import sys
import types

{package} = sys.modules["{package}"] = types.ModuleType("{package}")
patch = sys.modules["{package}.{module}"] = types.ModuleType("{package}.{module}")
patch.{ask} = lambda name: name == "select"
import select
del select.epoll
"""

#: Nothing is left to make this with; the program goes on.
REFUSING = """
from importlib import import_module

module = import_module("{module}")


def refuse(*arguments, **options):
    raise {error}


module.{name} = refuse
"""
NO_DESCRIPTORS = REFUSING.format(
    module="lucky_transport_stubs.server.port", name="Listener", error="OSError(24, 'Too many open files')"
)
NO_THREADS = REFUSING.format(
    module="lucky_transport.rpc.workers.guarded_reader",
    name="GuardedReader.start",
    error='RuntimeError("can\'t start new thread")',
)
NO_READERS = REFUSING.format(
    module="lucky_transport_stubs.aio.server", name="ServerLoopReader", error="OSError(24, 'Too many open files')"
)


def run(launch: Launch, tmp_path: Path, transport: str, program: str, **variables: str) -> str:
    """Run a program to its end and return what the launcher said."""
    file = tmp_path / "program.py"
    file.write_text(program)
    pairs = ("--map", f"*=shm://staying_{secrets.token_hex(4)}_{{port}}")
    done = launch("--transport", transport, *pairs, command=[sys.executable, str(file)], **variables)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("first", ["", FORKED], ids=["started", "forked"])
def test_a_server_and_its_client_in_one_process_meet_over_shared_memory(
    launch: Launch, tmp_path: Path, first: str
) -> None:
    said = run(launch, tmp_path, "shm", first + PROGRAM)
    assert "2 calls over shared memory, 0 over gRPC; served 2 calls over shared memory, 0 over gRPC" in said


@pytest.mark.parametrize("transport", ["auto", "shm"])
@pytest.mark.parametrize(
    ("package", "module", "ask"),
    [("gevent", "monkey", "is_module_patched"), ("eventlet", "patcher", "is_monkey_patched")],
)
def test_a_process_of_greenlets_stays_on_grpc(
    launch: Launch, tmp_path: Path, transport: str, package: str, module: str, ask: str
) -> None:
    said = run(launch, tmp_path, transport, GREENLETS.format(package=package, module=module, ask=ask) + PROGRAM)
    reason = f"{package} has patched this process, and shared memory needs its threads"
    assert re.search(rf"is served over gRPC only: Failed to bind to address shm://staying_\w+: {reason}", said)
    assert f" over gRPC: {reason}\n" in said


def test_a_process_of_greenlets_says_that_it_is_not_recorded(launch: Launch, tmp_path: Path) -> None:
    greenlets = GREENLETS.format(package="gevent", module="monkey", ask="is_module_patched")
    program, file = tmp_path / "program.py", tmp_path / "run.jsonl"
    program.write_text(greenlets + 'import grpc\ngrpc.insecure_channel("127.0.0.1:1").close()\n')
    done = launch("--transport", "grpc", "--record", str(file), command=[sys.executable, str(program)])
    assert done.returncode == 0, done.stderr
    why = "gevent has patched this process, and a recording needs its threads"
    assert f"calls to 127.0.0.1:1 are not recorded: {why}" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("program", "folder", "reason"),
    [
        (PROGRAM, "d" * 120, r"Failed to bind to address shm://staying_\w+: a socket in"),
        (NO_DESCRIPTORS + PROGRAM, "", r"Failed to bind to .*: too many open files, the limit is \d+"),
        (NO_THREADS + PROGRAM, "", "can't start new thread"),
    ],
    ids=["a long path", "no descriptors", "no threads"],
)
def test_a_server_that_cannot_listen_or_start_beside_grpcs_stays_on_grpc(
    launch: Launch, tmp_path: Path, program: str, folder: str, reason: str
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    said = run(launch, tmp_path, "auto", program, **({"XDG_RUNTIME_DIR": str(tmp_path / folder)} if folder else {}))
    assert re.search(f"is served over gRPC only: {reason}", said)
    assert " over gRPC: no server or engine at shm://staying_" in said


def test_a_server_of_asyncio_that_cannot_start_beside_grpcs_stays_on_grpc(start: Start) -> None:
    options = ("--transport", "auto", "--map", f"*=shm://staying_{secrets.token_hex(4)}")
    command = [sys.executable, "-c", NO_READERS + AIO, "127.0.0.1:0"]
    served = Served(start(*options, command=command, stdin=subprocess.PIPE))
    assert echo(f"127.0.0.1:{served.ports[0]}") == b"hello"
    assert "is served over gRPC only: [Errno 24] Too many open files" in served.end()


def test_a_port_that_demands_certificates_of_its_clients_stays_on_grpc(launch: Launch, tmp_path: Path) -> None:
    program = f"""
from concurrent import futures

import grpc

pairs, certificate = [({KEY!r}, {CERTIFICATE!r})], {CERTIFICATE!r}
server = grpc.server(futures.ThreadPoolExecutor(1))
server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pairs, certificate, require_client_auth=True))
server.add_secure_port("localhost:0", grpc.ssl_server_credentials(pairs))
"""
    said = run(launch, tmp_path, "shm", program)
    reason = "it requires client certificates, and there are none in shared memory"
    assert re.search(rf"server 127.0.0.1:\d+ is served over gRPC only: {reason}", said)
    assert re.search(r"server localhost:\d+ is served at shm://staying_\w+ too", said)


@pytest.mark.parametrize(
    ("factory", "credentials"),
    [
        ("grpc.secure_channel", "alts_channel_credentials()"),
        ("grpc.aio.secure_channel", "compute_engine_channel_credentials(token)"),
    ],
    ids=["alts", "google"],
)
def test_a_channel_that_authenticates_a_networks_peer_stays_on_grpc(
    run_switched: Launch, tmp_path: Path, factory: str, credentials: str
) -> None:
    program = tmp_path / "secure.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio

        import grpc

        async def main():
            token = grpc.access_token_call_credentials("token")
            {factory}("localhost:50051", grpc.{credentials})

        asyncio.run(main())
        """)
    )
    done = run_switched("--transport", "shm", "--endpoint", "shm://nobody", command=[str(program)])
    assert done.returncode == 0, done.stderr
    assert re.search(r"localhost:50051 stays on gRPC: \w+ChannelCredentials authenticate a network's peer", done.stderr)
