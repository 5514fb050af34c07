"""What a program under `run` imports for its first channel and its first server, beside what it imports anyway.

A start costs what is imported. So that it does not grow unseen, the modules are named here: add one only when every
program with a channel or a server needs it, and import it where it is needed otherwise.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.config import Launch, load_settings
from lucky_transport_stubs.run.activation import variables
from tests.support.waiting import PATIENCE_S

#: Modules and packages of Python's library, but for those of its own with an underscore.
LIBRARY = {
    *("bisect", "copy", "ctypes", "dataclasses", "datetime", "fcntl", "hashlib", "ipaddress", "json", "mmap"),
    *("pwd", "queue", "random", "resource", "select", "shlex", "sitecustomize"),
    *("array", "sysconfig", "urllib"),  # what a plain program imports in older Pythons, or `ctypes` in newer ones
}

#: Of the core: how settings are read, how a call becomes bytes, and how these travel. No array and no typed message.
CORE = {
    *("_native", "call", "call_counts", "closing", "config", "deadline", "endpoint", "endpoint_options", "errors"),
    *("foreign_code", "fork", "found_file", "handler_options", "lazy_dict", "limits", "native", "nesting"),
    *("uninterrupted", "env", "env.registration"),
    *("table_readers", "messages", "messages._generated", "messages.fields", "messages.method", "messages.scalars"),
    *("codec", "codec.compiled", "codec.envelope", "codec.flatbuffers", "codec.layout", "codec.runtime"),
    "codec.snippets",
}

#: Packages all of whose modules may be loaded: calls, shared memory without segments, gRPC's words.
WHOLE = ("lucky_transport.rpc", "lucky_transport.shm", "lucky_transport_grpc", "lucky_transport_stubs", "grpc")

#: Modules in these that only some programs need.
NOT_YET = (
    *("lucky_transport.shm.segment", "lucky_transport.shm.slot_files", "lucky_transport.rpc.typed"),
    *("lucky_transport.rpc.async_calls", "lucky_transport_grpc._pb", "lucky_transport_grpc.client"),
    *("lucky_transport_stubs.aio", "lucky_transport_stubs.staged", "lucky_transport_stubs.run.report"),
    *("lucky_transport_stubs.words.service_config", "lucky_transport_stubs.words.retries"),
)

_SERVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc

def answer(request, context):
    context.send_initial_metadata((("name", "value"),))
    return request

server = grpc.server(ThreadPoolExecutor(1))
handlers = {"Unary": grpc.unary_unary_rpc_method_handler(answer)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", handlers),))
server.add_insecure_port("127.0.0.1:0")
server.start()
print("started", flush=True)
sys.stdin.read()
print(*sys.modules)
server.stop(None).wait()
"""

_CLIENT = """
import sys
import grpc

with grpc.insecure_channel("localhost:50051") as channel:
    try:
        call = channel.unary_unary("/t.Test/Unary")
        call(b"payload", timeout=600, metadata=(("name", "value"),), wait_for_ready=CALLS)
    except grpc.RpcError as error:
        assert not CALLS, error
print(*sys.modules)
"""


@pytest.fixture
def switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a program whose channels and servers are switched, in a folder without settings."""
    monkeypatch.chdir(tmp_path)
    endpoint = f"shm://start_{uuid.uuid4().hex[:8]}"
    settings = load_settings({"transport": "shm", "grpc_map": f"*={endpoint}"})
    return {**os.environ, **variables(settings, Launch(parent=str(os.getpid()), quiet=True))}


@pytest.fixture
def server(switched: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = _start(_SERVER, switched)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    yield process
    process.kill()
    process.communicate(timeout=PATIENCE_S)


def _start(program: str, environ: dict[str, str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], env=environ, stdin=pipe, stdout=pipe, text=True)


def _modules(process: subprocess.Popen[str]) -> set[str]:
    """Return what a program has imported by its end."""
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    return set(output.split())


def _surplus(switched: set[str], plain: set[str]) -> list[str]:
    """Return the modules that a switched program has loaded and need not have."""
    allowed = LIBRARY | {"lucky_transport", *(f"lucky_transport.{name}" for name in CORE)}
    return sorted(
        name
        for name in switched - plain
        if _is_in(name, NOT_YET)
        or not (name in allowed or name.startswith("_") or _is_in(name, WHOLE) or name.partition(".")[0] in LIBRARY)
    )


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_a_channel_and_its_first_call_import_what_they_need_alone(
    switched: dict[str, str], server: subprocess.Popen[str]
) -> None:
    plain = _modules(_start(_CLIENT.replace("CALLS", "False"), dict(os.environ)))
    found = _modules(_start(_CLIENT.replace("CALLS", "True"), switched))
    assert "lucky_transport.shm.listener.connecting" in found
    assert "numpy" not in found
    assert _surplus(found, plain) == []


def test_a_server_and_its_first_call_import_what_they_need_alone(
    switched: dict[str, str], server: subprocess.Popen[str]
) -> None:
    plain = _start(_SERVER, dict(os.environ))
    _modules(_start(_CLIENT.replace("CALLS", "True"), switched))
    found = _modules(server)
    assert "lucky_transport.shm.listener.listener" in found
    assert "numpy" not in found
    assert _surplus(found, _modules(plain)) == []
