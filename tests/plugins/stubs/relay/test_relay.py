"""What a relay does beside `differential`, whose cases it passes in tests/exhaustive: who leaves or comes late, limits,
TLS, names.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport.process import unique_name
from lucky_transport_stubs.relay.relay import CallerRequests
from tests.plugins.stubs.differential.ends import ARITIES, Ends
from tests.plugins.stubs.relay.conftest import Serve, Stuck, Through, echo, relay_to
from tests.support.certificates import CERTIFICATE, KEY
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S, until


def first_of(call: Any) -> bytes | None:
    """Return the first response of a stream, None where it fails."""
    try:
        return next(call)
    except grpc.RpcError:
        return None


def failure_of(call: Any, *arguments: Any, **options: Any) -> Any:
    """Return the error of a call; a stream's comes when it is read."""
    options.setdefault("timeout", PATIENCE_S)
    with pytest.raises(grpc.RpcError) as raised:
        list(call(*arguments, **options))
    return raised.value


def is_unavailable(channel: Any) -> bool:
    """Return whether a call that does not wait is UNAVAILABLE."""
    return failure_of(channel.unary_unary("/t.Test/Echo"), b"").code() is grpc.StatusCode.UNAVAILABLE


CLIENT = """
import sys
import lucky_transport_stubs
call = lucky_transport_stubs.channel(sys.argv[1]).stream_stream("/t.Test/Stuck")(iter(lambda: input().encode(), None))
print("begun", flush=True)
next(call)
"""


def test_a_caller_that_is_killed_ends_its_call_upstream(serve: Serve) -> None:
    stuck = Stuck()
    port = serve({"stream_stream Stuck": stuck})
    with relay_to(port) as relay:
        command = [sys.executable, "-c", CLIENT, relay.endpoint]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert stuck.entered.wait(PATIENCE_S)
            client.kill()
        assert stuck.ended.wait(PATIENCE_S)


def test_requests_that_break_off_cancel_the_call_before_they_end() -> None:
    """So the server never takes them for complete; gRPC's own server in Python cannot always tell, so none is asked."""
    seen: list[str] = []

    class Call:
        def cancel(self) -> None:
            seen.append("cancelled")

    def broken() -> Iterator[bytes]:
        yield b"one"
        raise grpc.RpcError

    requests = CallerRequests(broken())
    requests.begun(Call())
    for request in requests:
        seen.append(request.decode())
    assert seen == ["one", "cancelled"]


UPSTREAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc

def endless(request, context):
    while True:
        yield request

handlers = {"Endless": grpc.unary_stream_rpc_method_handler(endless)}
server = grpc.server(ThreadPoolExecutor(4), options=(("grpc.so_reuseport", 0),))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", handlers),))
assert server.add_insecure_port(sys.argv[1])
server.start()
print("ready", flush=True)
server.wait_for_termination()
"""


@pytest.mark.exhaustive
def test_a_server_that_dies_is_named_and_found_again(tmp_path: Path, through: Through) -> None:
    path = tmp_path / "s"

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", UPSTREAM, f"unix:{path}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    method = through(f"grpc+unix://{path}").unary_stream("/t.Test/Endless")
    with start() as process:
        call = method(b"x", timeout=PATIENCE_S)
        assert next(call) == b"x"
        process.kill()
        broken = failure_of(lambda **options: call)
    for error in (broken, failure_of(method, b"x")):
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert error.details().endswith(f" (upstream grpc+unix://{path})")
    path.unlink(missing_ok=True)
    with start() as process:
        until(lambda: first_of(method(b"y", timeout=PATIENCE_S)) == b"y")
        process.kill()


@pytest.mark.parametrize("arity", ARITIES)
def test_a_call_that_waits_is_carried_on_when_its_server_comes(
    serve: Serve, through: Through, tmp_path: Path, arity: str
) -> None:
    def met(request: Any, context: Any) -> bytes:
        return repr([key for key, _ in context.invocation_metadata() if key != "user-agent"]).encode()

    def several(request: Any, context: Any) -> Iterator[bytes]:
        yield met(request, context)

    channel = through(f"grpc+unix://{tmp_path}/s")
    method, request = getattr(channel, arity)("/t.Test/Met"), iter([b"x"]) if arity.startswith("stream") else b"x"
    start = method if arity.endswith("stream") else method.future
    is_unavailable(channel)  # and it is connected: what is sent from here on comes in this order
    call = start(request, wait_for_ready=True, timeout=PATIENCE_S, metadata=(("key", "value"),))
    assert is_unavailable(channel), "one that does not wait, though it comes later"
    assert not call.done()
    serve({f"{arity} Met": several if arity.endswith("stream") else met}, f"unix:{tmp_path}/s")
    assert (next(call) if arity.endswith("stream") else call.result()) == b"['key']"


def test_a_call_that_waits_can_be_cancelled_and_leaves_its_place(through: Through, tmp_path: Path) -> None:
    channel = through(f"grpc+unix://{tmp_path}/s", max_calls=1)
    until(lambda: is_unavailable(channel))
    call = channel.unary_stream("/t.Test/Echo")(b"", wait_for_ready=True)
    assert failure_of(channel.unary_unary("/t.Test/Echo"), b"").code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    call.cancel()
    until(lambda: is_unavailable(channel))


def test_a_relay_that_ends_ends_calls_that_wait(tmp_path: Path) -> None:
    with relay_to(f"grpc+unix://{tmp_path}/s") as relay, lucky_transport_stubs.channel(relay.endpoint) as channel:
        is_unavailable(channel)
        call = channel.unary_stream("/t.Test/Echo")(b"", wait_for_ready=True, timeout=PATIENCE_S)
        assert is_unavailable(channel)
        relay.stop(0.0)
        assert failure_of(lambda **options: call).code() is grpc.StatusCode.UNAVAILABLE


def test_no_other_server_is_told_which_calls_wait(ends: Ends) -> None:
    """And a program cannot say it in a call's metadata."""
    met: list[str] = []

    def note(request: bytes, context: Any) -> bytes:
        met.extend(key for key, _ in context.invocation_metadata())
        return request

    call = ends.unary_unary(note)
    call(b"", wait_for_ready=True, timeout=PATIENCE_S, metadata=(("lucky-wait-for-ready", "1"),))
    assert met == ["user-agent"]


def test_what_a_server_says_of_itself_is_left_as_it_is(serve: Serve, through: Through) -> None:
    def refuse(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAVAILABLE, "come again")

    error = failure_of(through(serve({"unary_unary Refuse": refuse})).unary_unary("/t.Test/Refuse"), b"")
    assert error.details() == "come again"


def test_calls_beyond_the_limit_are_refused_and_the_others_go_on(serve: Serve, through: Through) -> None:
    stuck = Stuck()
    channel = through(serve({"unary_stream Stuck": stuck, "unary_unary Echo": echo}), max_calls=1)
    call = channel.unary_stream("/t.Test/Stuck")(b"")
    assert stuck.entered.wait(PATIENCE_S)
    assert failure_of(channel.unary_unary("/t.Test/Echo"), b"").code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    call.cancel()
    until(lambda: first_of(channel.unary_stream("/t.Test/Echo")(b"x", timeout=PATIENCE_S)) == b"x")


def test_a_server_with_tls_asks_the_relay_for_its_certificate(serve: Serve, through: Through, tmp_path: Path) -> None:
    certificate, key = tmp_path / "it.pem", tmp_path / "it.key"
    certificate.write_bytes(CERTIFICATE)
    key.write_bytes(KEY)
    asks = grpc.ssl_server_credentials([(KEY, CERTIFICATE)], CERTIFICATE, require_client_auth=True)
    port = serve({"unary_unary Echo": echo}, credentials=asks)
    where = f"grpcs://127.0.0.1:{port}?ca={certificate}&authority=localhost"
    known = through(f"{where}&cert={certificate}&key={key}")
    assert known.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S) == b"x"
    error = failure_of(through(where).unary_unary("/t.Test/Echo"), b"x")
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details().endswith(f" (upstream grpcs://127.0.0.1:{port})")


@pytest.mark.parametrize(
    ("upstream", "endpoint", "says"),
    [
        ("shm://a", "shm://b", "leads to grpc, grpcs, grpc.unix, not to 'shm://a'; name a gRPC server"),
        ("127.0.0.1:50051", "shm://b", "did you mean grpc://127.0.0.1:50051?"),
        ("grpc://127.0.0.1", "shm://b", "the address is not host:port"),
        ("grpc+unix:", "shm://b", "it has no path"),
        ("grpc://127.0.0.1:1", "grpc://127.0.0.1:2", "^'grpc://127.0.0.1:2' is not an endpoint shm://NAME; write one"),
        ("grpc://127.0.0.1:1?ca=x", "shm://b", "ca=x; expected a PEM file that can be read"),
        ("grpc://127.0.0.1:1?authority=x", "shm://b", "options are those of TLS; write grpcs://"),
        ("grpcs://127.0.0.1:1?authorty=x", "shm://b", "did you mean 'authority'?"),
        (f"grpcs://127.0.0.1:1?cert={__file__}", "shm://b", "cert and key belong together"),
    ],
)
def test_a_wrong_endpoint_is_refused_with_its_remedy(upstream: str, endpoint: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        relay_to(upstream, endpoint)


def test_a_name_that_is_taken_is_refused_and_the_first_relay_goes_on(serve: Serve, through: Through) -> None:
    port = serve({"unary_unary Echo": echo})
    with relay_to(port) as relay:
        with pytest.raises(NotReachable, match=f"Failed to bind to address {relay.endpoint}.*another --endpoint"):
            relay_to(port, relay.endpoint)
        with lucky_transport_stubs.channel(relay.endpoint) as channel:
            assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S) == b"x"


def test_the_port_of_the_upstream_can_name_the_endpoint() -> None:
    port = free_port()
    with relay_to(port, "shm://of_{host}_{port}_" + unique_name()) as relay:
        assert relay.endpoint.startswith(f"shm://of_localhost_{port}_")
