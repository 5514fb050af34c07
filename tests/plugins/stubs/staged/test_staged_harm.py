"""What shadows and policies cannot do: delay or break the calls of a program, or outlive it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import Comparison
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from lucky_transport_migration.routing.router import ProcessRouter  # noqa: E402 - needs grpc

ECHO, COUNT = "/t.Test/Echo", "/t.Test/Count"


@pytest.fixture
def hanging() -> Iterator[tuple[dict[str, Any], threading.Event]]:
    """A candidate that answers nobody, until the event is set."""
    go_on = threading.Event()

    def hang(request: bytes, context: Any) -> bytes:
        go_on.wait(PATIENCE_S)
        return request

    def hang_many(request: bytes, context: Any) -> Iterator[bytes]:
        yield hang(request, context)

    yield {"unary_unary Echo": hang, "unary_stream Count": hang_many}, go_on
    go_on.set()


def answers(channel: Any, times: int) -> None:
    """Fail unless the program gets its answers."""
    echo, count = channel.unary_unary(ECHO), channel.unary_stream(COUNT)
    for number in range(times):
        assert echo(bytes([number]), timeout=PATIENCE_S) == bytes([number])
        assert list(count(bytes([number]), timeout=PATIENCE_S)) == [bytes([number])]


def codes(noted: list[Comparison]) -> set[str]:
    return {one.shadow.code for one in noted if one.shadow is not None}


def test_a_candidate_that_hangs_is_waited_for_by_nobody_and_asked_no_more(
    serve: Any, policy: Any, hanging: tuple[Mapping[str, Any], threading.Event]
) -> None:
    candidate, go_on = hanging
    with serve(candidate=candidate).channel() as channel:
        answers(channel, 50)  # none of these could come if it waited
        refused = [one for one in policy.wait(100 - 64) if one.shadow is None]
        assert {one.why for one in refused} == {"too many shadows are under way"}
        assert len(refused) == 100 - 64
        go_on.set()
        policy.wait(100)


def test_a_shadow_has_the_deadline_of_its_caller(
    serve: Any, policy: Any, hanging: tuple[Mapping[str, Any], threading.Event]
) -> None:
    with serve(candidate=hanging[0]).channel() as channel:
        assert channel.unary_unary(ECHO)(b"x", timeout=2) == b"x"
        assert list(channel.unary_stream(COUNT)(b"x", timeout=2)) == [b"x"]
        assert codes(policy.wait(2)) == {"DEADLINE_EXCEEDED"}


def test_a_candidate_that_crashes_is_noted_and_found_again(
    serve: Any, policy: Any, handlers_of: Callable[[Mapping[str, Any]], Any]
) -> None:
    import lucky_transport_stubs

    pair = serve()
    pair.endpoint = f"shm://{unique_name()}"

    def candidate() -> Any:
        server = lucky_transport_stubs.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((handlers_of({"unary_unary Echo": lambda request, _: request}),))
        server.add_insecure_port(pair.endpoint)
        server.start()
        return server

    with pair.channel() as channel:
        echo = channel.unary_unary(ECHO)
        for number, step in enumerate(("OK", "UNAVAILABLE", "OK"), start=1):
            server = candidate() if step == "OK" else None
            assert echo(b"x") == b"x"
            last = policy.wait(number)[-1].shadow
            assert (last.transport, last.code) == ("shm", step)
            if server is not None:
                server.stop(None).wait(PATIENCE_S)


def test_whatever_a_shadow_raises_is_its_outcome(pair: Any, policy: Any) -> None:
    from lucky_transport_stubs.staged import channels

    def broken() -> Any:
        raise KeyError("no channel")

    sides = {name: make() for name, make in pair.blocking().items()}
    with channels.open_channel(pair.target, sides, {"grpc": broken, "shm": broken}, None) as channel:
        answers(channel, 1)
        for comparison in policy.wait(2):
            assert (comparison.shadow.code, comparison.shadow.details) == ("INTERNAL", "KeyError: 'no channel'")


@pytest.mark.parametrize("hangs", [False, True], ids=["idle", "hanging"])
def test_closing_waits_for_no_shadow_and_none_outlives_it_for_long(
    serve: Any, policy: Any, router: ProcessRouter, hanging: tuple[dict[str, Any], threading.Event], hangs: bool
) -> None:
    channel = serve(candidate=hanging[0] if hangs else None).channel()
    assert channel.unary_unary(ECHO)(b"x") == b"x"
    if not hangs:
        policy.wait()
    channel.close()
    channel.close()
    is_waiting = bool(hangs and not policy.noted)
    comparison = policy.only()
    if hangs:
        assert is_waiting
        assert (comparison.shadow, comparison.why) == (None, "the channel was closed before the shadow had answered")
    with pytest.raises(ValueError, match="closed channel"):
        channel.unary_unary(ECHO)(b"")


def test_the_end_of_the_process_waits_a_moment_for_shadows_then_closes_the_policy(
    serve: Any, policy: Any, router: ProcessRouter, hanging: tuple[dict[str, Any], threading.Event]
) -> None:
    with serve(candidate=hanging[0]).channel() as channel:
        channel.unary_unary(ECHO)(b"x")
        router.close()
        assert policy.is_closed
        note = policy.only()
        assert (note.shadow, note.why) == (None, "the program ended before the shadow had answered")
        assert list(note.primary.items) == [b"x"]
        channel.unary_unary(ECHO)(b"y")  # a program that goes on at its end
        assert policy.wait(2)[-1].why == "too many shadows are under way"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_shadows_of_its_own(pair: Any, policy: Any) -> None:
    """Its channel is new, as after every fork; threads and jobs of the parent's are not waited for."""
    policy.decision = Decision("shm", "shm", "shadow")
    with pair.channel() as channel:
        channel.unary_unary(ECHO)(b"x")
        policy.wait()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                policy.noted.clear()
                own = pair.channel()  # never closed: gRPC's own half at times crashes a forked child that closes it
                own.unary_unary(ECHO)(b"y", timeout=PATIENCE_S)
                comparison = policy.only()
                status = 0 if list(comparison.shadow.items) == [b"y"] else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("has_gone", [True, False], ids=["both", "candidate"])
def test_an_engine_that_ends_is_no_evidence_against_one_transport(
    serve: Any, policy: Any, handlers_of: Callable[[Mapping[str, Any]], Any], has_gone: bool
) -> None:
    """The candidate is never there; the primary goes as soon as it has answered, or stays."""
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handlers_of({"unary_unary Echo": lambda request, _: request}),))
    pair = serve()
    pair.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    pair.endpoint = f"shm://{unique_name()}"
    server.start()
    with pair.channel() as channel:
        assert channel.unary_unary(ECHO)(b"x") == b"x"
        if has_gone:
            server.stop(None).wait(PATIENCE_S)
        comparison = policy.only()
        server.stop(None).wait(PATIENCE_S)
    if has_gone:
        assert (comparison.shadow, comparison.why) == (None, "the engine has gone")
    else:
        assert comparison.shadow.code == "UNAVAILABLE"


def test_an_engine_that_was_never_there_is_unavailable_over_both(pair: Any, policy: Any) -> None:
    policy.decision = Decision("shm", "grpc", "shm")
    pair.target, pair.endpoint = "127.0.0.1:1", f"shm://{unique_name()}"
    with pair.channel() as channel:
        with pytest.raises(grpc.RpcError):
            channel.unary_unary(ECHO)(b"x")
        comparison = policy.only()
    assert (comparison.primary.code, comparison.shadow.code) == ("UNAVAILABLE", "UNAVAILABLE")
