"""The life of a server: ports, start, stop with and without a grace, and being forgotten."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.resources import descriptors_of, threads_of
from tests.support.waiting import PATIENCE_S, until, until_none_left

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


def test_a_port_is_the_name_of_a_listener_and_its_number_is_true(
    make_server: Any, handlers_of: Any, address: Callable[[], str], dial: Any
) -> None:
    server = make_server(handlers=(handlers_of(ECHO),))
    target = address()
    assert server.add_insecure_port(target) == 1
    server.start()
    assert dial(target).unary_unary("Echo")(b"hello", timeout=PATIENCE_S) == b"hello"


def test_a_server_listens_at_several_names(
    make_server: Any, handlers_of: Any, address: Callable[[], str], dial: Any
) -> None:
    server = make_server(handlers=(handlers_of(ECHO),))
    before, after = address(), address()
    server.add_insecure_port(before)
    server.start()
    server.add_insecure_port(after)
    for target in (before, after):
        assert dial(target).unary_unary("Echo")(b"hello", timeout=PATIENCE_S) == b"hello"
    assert server.stop(PATIENCE_S).wait(PATIENCE_S)


def test_a_call_whose_caller_gave_up_without_a_word_ends_with_its_handler(
    serve: Any, dial: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gave_up = threading.Event()

    def late(request: bytes, context: Any) -> Iterator[bytes]:
        gave_up.wait(PATIENCE_S)
        yield request

    monkeypatch.setattr("lucky_transport.rpc.client_call.ClientCall._tell_cancelled", lambda call: None)
    served = serve({"unary_stream Late": late})
    client = dial(served)
    with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
        list(client.unary_stream("Late")(b"", timeout=0.1))
    gave_up.set()
    assert served.server.stop(2 * PATIENCE_S).wait(PATIENCE_S)


def test_a_name_that_is_taken_is_refused_as_a_taken_port_is(serve: Any, make_server: Any) -> None:
    target = serve(ECHO).target
    with pytest.raises(RuntimeError, match=f"Failed to bind to address {target}: .*listens at"):
        make_server().add_insecure_port(target)


@pytest.mark.parametrize("elsewhere", ["127.0.0.1:0", "[::]:50051", "unix:/tmp/x", "grpc://127.0.0.1:1", "shm://", "x"])
def test_an_address_of_another_kind_is_refused_with_the_remedy(make_server: Any, elsewhere: str) -> None:
    with pytest.raises(RuntimeError, match=r"shared memory only.*shm://name") as caught:
        make_server().add_insecure_port(elsewhere)
    assert f"Failed to bind to address {elsewhere}" in str(caught.value)


def test_a_secure_port_needs_credentials(make_server: Any, address: Callable[[], str]) -> None:
    with pytest.raises(AttributeError, match="_credentials"):
        make_server().add_secure_port(address(), None)


def test_callers_may_come_before_the_start(
    make_server: Any, handlers_of: Any, address: Callable[[], str], dial: Any
) -> None:
    server = make_server(handlers=(handlers_of(ECHO),))
    target = address()
    server.add_insecure_port(target)
    threading.Timer(0.05, server.start).start()
    assert dial(target).unary_unary("Echo")(b"patience", timeout=PATIENCE_S) == b"patience"


def test_stopping_what_was_not_started_has_no_effect(
    make_server: Any, handlers_of: Any, address: Callable[[], str], dial: Any
) -> None:
    server = make_server(handlers=(handlers_of(ECHO),))
    target = address()
    server.add_insecure_port(target)
    assert server.stop(None).is_set()
    server.start()
    assert dial(target).unary_unary("Echo")(b"hello", timeout=PATIENCE_S) == b"hello"


def test_a_server_that_is_dropped_stops_by_itself(handlers_of: Any, address: Callable[[], str], dial: Any) -> None:
    target = address()  # which must be gone afterwards
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool, handlers=(handlers_of(ECHO),))
        server.add_insecure_port(target)
        server.start()
        assert dial(target).unary_unary("Echo")(b"x", timeout=PATIENCE_S) == b"x"
        gone = weakref.ref(server)
        del server
        gc.collect()
        assert gone() is None
        until_none_left(lambda: threads_of(f"grpc server {target}"))


def test_a_server_that_never_started_gives_its_name_back_when_it_is_dropped(address: Callable[[], str]) -> None:
    target = address()
    for _ in range(2):
        server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
        server.add_insecure_port(target)
        del server
        gc.collect()


PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import lucky_transport_stubs
server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
server.add_insecure_port(sys.argv[1])
server.start()
print("ready", flush=True)
server.wait_for_termination(0.01)
"""


def test_a_program_that_forgets_to_stop_its_server_leaves_nothing_behind(address: Callable[[], str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, address()], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("ready\n", "")


FORKING = """
import os, sys, warnings
warnings.simplefilter("ignore")
from concurrent.futures import ThreadPoolExecutor
import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc
server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
handler = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server.add_registered_method_handlers("t.Test", {"Echo": handler})
server.add_insecure_port(sys.argv[1])
server.start()
child = os.fork()
if not child:
    server.stop(None)
    sys.exit(0)  # as a program ends, with all that is done then
assert os.waitpid(child, 0)[1] == 0
channel = lucky_transport_stubs.channel(sys.argv[1])
print(channel.unary_unary("/t.Test/Echo")(b"still here", timeout=20))
channel.close()
server.stop(None)
"""


@pytest.mark.exhaustive
def test_a_forked_child_leaves_its_parents_server_alone(address: Callable[[], str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, address()], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'still here'\n", "")


@pytest.mark.parametrize("mark", [lambda handler: handler, lucky_transport_stubs.inline], ids=["pool", "inline"])
def test_a_handler_may_stop_its_server(serve: Any, dial: Any, refused: Any, mark: Any) -> None:
    @mark
    def stop(request: bytes, context: Any) -> bytes:
        assert served.server.stop(None).is_set()
        return b"nobody hears it"

    served = serve({"unary_unary Stop": stop})
    assert refused(dial(served).unary_unary("Stop"), b"")[0] == "UNAVAILABLE"
    assert not served.server.wait_for_termination(PATIENCE_S)


def test_without_clients_a_server_has_one_thread_and_no_timer(serve: Any, dial: Any) -> None:
    served = serve({"unary_unary Echo": echo})

    def threads() -> int:
        return len(threads_of(f"grpc server {served.target}"))

    others = descriptors_of("timerfd")
    assert threads() == 1
    client = dial(served)
    call = client.unary_unary("Echo")

    def is_guarded() -> bool:  # once its handler has proved quick
        call(b"", timeout=PATIENCE_S)
        return threads() == 2

    until(is_guarded)
    client.channel.close()
    until(lambda: threads() == 1)
    until_none_left(lambda: descriptors_of("timerfd") - others)


@pytest.mark.parametrize("is_started", [False, True])
def test_a_server_without_a_port_is_dropped_without_a_word(is_started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool)
        if is_started:
            server.start()
        del server
        gc.collect()
    assert said == []


@pytest.mark.parametrize("bad", [{"options": 5}, {"interceptors": 5}])
def test_a_server_that_could_not_be_made_is_dropped_without_a_word(
    bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with ThreadPoolExecutor(1) as pool, pytest.raises((TypeError, ValueError, AttributeError)):
        lucky_transport_stubs.server(pool, **bad)
    gc.collect()
    assert said == []
