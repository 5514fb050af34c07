"""A service of every arity behind a server in shared memory, and channels to it; nothing is left when a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.fixtures.plugins_stubs import nothing_is_left
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport.rpc import completion_thread
from lucky_transport.shm.files.socket_path import remove_stale_sockets
from lucky_transport_grpc.runtime import grpc


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_thread, "_IDLE_S", 0.05)  # how long one that has nothing to do stays


class Service:
    """What the test servers answer with. release(): lets `Wait` answer; `over`: set when a stream's caller has left."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.over = threading.Event()
        self.seen: tuple[Any, ...] = ()

    def echo(self, request: bytes, context: Any) -> bytes:
        self.seen = context.invocation_metadata()
        context.send_initial_metadata((("first", "1"), ("first-bin", b"\x00\xff")))
        context.set_trailing_metadata((("last", "1"), ("last", "2"), ("last-bin", b"\x01")))
        return request

    def fail(self, request: bytes, context: Any) -> Any:
        context.set_trailing_metadata((("why", "so"),))
        context.abort(grpc.StatusCode.NOT_FOUND, request.decode())

    def wait(self, request: bytes, context: Any) -> bytes:
        context.add_callback(self.over.set)
        self.released.wait(PATIENCE_S)
        return request

    def count(self, request: bytes, context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("first", "1"),))
        yield from (b"%d" % number for number in range(int(request)))
        context.set_trailing_metadata((("last", "1"),))

    def count_and_fail(self, request: bytes, context: Any) -> Iterator[bytes]:
        yield from (b"%d" % number for number in range(int(request)))
        context.abort(grpc.StatusCode.DATA_LOSS, "lost")

    def linger(self, request: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(self.over.set)
        yield request
        self.over.wait(PATIENCE_S)

    def join(self, requests: Iterator[bytes], context: Any) -> bytes:
        return b"".join(requests)

    def relay(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield from requests

    def handlers(self) -> Any:
        arities = {
            grpc.unary_unary_rpc_method_handler: (self.echo, self.fail, self.wait),
            grpc.unary_stream_rpc_method_handler: (self.count, self.count_and_fail, self.linger),
            grpc.stream_unary_rpc_method_handler: (self.join,),
            grpc.stream_stream_rpc_method_handler: (self.relay,),
        }
        methods = {one.__name__: make(one) for make, behaviours in arities.items() for one in behaviours}
        return grpc.method_handlers_generic_handler("test.Service", methods)


@pytest.fixture
def service() -> Iterator[Service]:
    """The behaviour of the servers of this test."""
    one = Service()
    yield one
    one.released.set()
    one.over.set()


@pytest.fixture
def name() -> str:
    """A name of this test's own."""
    return unique_name()


@pytest.fixture
def serve(service: Service, name: str) -> Iterator[Callable[[], Any]]:
    """Start a server of the service at `name`."""
    with ExitStack() as stack:

        def start() -> Any:
            pool = ThreadPoolExecutor(16)
            stack.callback(pool.shutdown)
            server = lucky_transport_stubs.server(pool, handlers=(service.handlers(),))
            server.add_insecure_port(f"shm://{name}")
            server.start()
            stack.callback(lambda: (service.released.set(), server.stop(None).wait(PATIENCE_S)))
            return server

        yield start


@pytest.fixture
def connect(name: str) -> Iterator[Callable[..., Any]]:
    """Make a channel to `name` that is closed when the test ends."""
    with ExitStack() as stack:

        def make(**arguments: Any) -> Any:
            return stack.enter_context(lucky_transport_stubs.channel(f"shm://{name}", **arguments))

        yield make


class Stub:
    """The methods of the service over a channel: `stub.count(b"3")`."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        arities = {
            channel.unary_unary: ("echo", "fail", "wait"),
            channel.unary_stream: ("count", "count_and_fail", "linger"),
            channel.stream_unary: ("join",),
            channel.stream_stream: ("relay",),
        }
        for make, methods in arities.items():
            for method in methods:
                setattr(self, method, make(f"/test.Service/{method}"))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.fixture
def stub(serve: Callable[[], Any], connect: Callable[..., Any]) -> Stub:
    """A stub of a service that is served."""
    serve()
    return Stub(connect())


_PROCESS = """
import sys
sys.path.insert(0, {folder!r})
from concurrent.futures import ThreadPoolExecutor
import lucky_transport_stubs
from conftest import Service
server = lucky_transport_stubs.server(ThreadPoolExecutor(16), handlers=(Service().handlers(),))
server.add_insecure_port("shm://" + sys.argv[1])
server.start()
print("ready", flush=True)
server.wait_for_termination()
"""


@pytest.fixture
def serve_elsewhere(name: str) -> Iterator[Callable[[], Callable[[], None]]]:
    """Start a process that serves the service at `name`; returns what kills it."""
    processes: list[subprocess.Popen[str]] = []

    def kill(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def start() -> Callable[[], None]:
        code = _PROCESS.format(folder=os.path.dirname(__file__))
        process = subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return lambda: kill(process)

    yield start
    for process in processes:
        kill(process)
        if process.stdout is not None:
            process.stdout.close()
    remove_stale_sockets()  # a killed server leaves its socket


@pytest.fixture
def failure() -> Callable[[Callable[[], Any]], Any]:
    """Call, and return the error that comes: `failure(lambda: stub.fail(b"")).code()`."""

    def fail(call: Callable[[], Any]) -> Any:
        with pytest.raises(grpc.RpcError) as raised:
            call()
        return raised.value

    return fail
