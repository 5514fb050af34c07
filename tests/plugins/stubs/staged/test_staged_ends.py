"""Calls at the end of a program: each is noted with what is known of it, whichever thread reports it late."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport_stubs.staged import multicallable
from lucky_transport_stubs.staged.ending import ending
from tests.support.waiting import PATIENCE_S, in_a_child

grpc = pytest.importorskip("grpc")


from .conftest import CHAT, COUNT, ECHO, SUM, ToldPolicy  # noqa: E402 - needs grpc

ALONE = [Decision("grpc", stage="grpc"), Decision("shm", stage="complete")]


@pytest.fixture(params=ALONE, ids=["grpc", "shm"])
def alone(request: pytest.FixtureRequest, policy: ToldPolicy) -> None:
    """One transport answers all calls, and the other one is not asked."""
    policy.default = request.param


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that brings the end of a call does not come to report it."""
    reports: list[Any] = []
    monkeypatch.setattr(multicallable, "_end_later", lambda *report: reports.append(report))


@contextmanager
def held(router: Any) -> Iterator[None]:
    """Hold the thread that reads how calls ended."""
    go_on, is_held = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        go_on.wait(PATIENCE_S)

    router.endings.run(hold)
    assert is_held.wait(PATIENCE_S)
    try:
        yield
    finally:
        go_on.set()


@pytest.mark.usefixtures("alone")
def test_a_stream_that_was_read_to_its_end_is_noted_though_no_thread_has_reported_it(
    channel: Any, policy: Any, router: Any, silent: None
) -> None:
    assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
    router.close()
    note = policy.only()
    assert (list(note.primary.items), note.primary.code, note.unfinished) == ([b"a", b"b"], "OK", False)
    assert note.ended_early is False


@pytest.mark.usefixtures("alone")
def test_a_future_is_noted_though_the_reporting_thread_is_held(channel: Any, policy: Any, router: Any) -> None:
    with held(router):
        assert channel.unary_unary(ECHO).future(b"x").result(PATIENCE_S) == b"x"
        assert channel.stream_unary(SUM).future(iter([b"a", b"b"])).result(PATIENCE_S) == b"ab"
        router.open_calls.end(Deadline(PATIENCE_S))
        assert {one.method: list(one.primary.items) for one in policy.wait(2)} == {ECHO: [b"x"], SUM: [b"ab"]}
        assert not any(one.unfinished for one in policy.notes)


def test_a_future_is_noted_though_no_thread_can_be_had_for_it(channel: Any, policy: Any, router: Any) -> None:
    policy.default = ALONE[0]
    router.endings.close()
    assert channel.unary_unary(ECHO).future(b"x").result(PATIENCE_S) == b"x"
    router.close()
    assert list(policy.only().primary.items) == [b"x"]


@pytest.mark.usefixtures("alone")
def test_a_call_that_goes_on_at_the_end_is_noted_as_unfinished_with_what_came(
    serve: Any, policy: Any, router: Any
) -> None:
    go_on = threading.Event()

    def count(request: bytes, _: Any) -> Iterator[bytes]:
        yield b"a"
        go_on.wait(PATIENCE_S)

    def echo(request: bytes, _: Any) -> bytes:
        go_on.wait(PATIENCE_S)
        return request

    with serve({"unary_stream Count": count, "unary_unary Echo": echo}).channel() as channel:
        stream = channel.unary_stream(COUNT)(b"ab")
        assert next(stream) == b"a"
        waiting = channel.unary_unary(ECHO).future(b"x")
        router.close()
        notes = {one.method: one for one in policy.wait(2)}
        go_on.set()
        assert waiting.result(PATIENCE_S) == b"x", "the program may go on all the same"
    for note, items in ((notes[COUNT], [b"a"]), (notes[ECHO], [])):
        assert (note.unfinished, bool(note.why), note.ended_early) == (True, True, True)
        assert list(note.primary.items) == items
    assert len(policy.notes) == 2


@pytest.mark.usefixtures("alone")
def test_calls_are_noted_in_the_order_in_which_their_caller_went_on(channel: Any, policy: Any, silent: None) -> None:
    assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
    assert channel.unary_unary(ECHO)(b"x") == b"x"
    assert list(channel.stream_stream(CHAT)(iter([b"c"]))) == [b"c"]
    assert channel.unary_unary(ECHO)(b"y") == b"y"
    assert [one.method for one in policy.wait(4)] == [COUNT, ECHO, CHAT, ECHO]


@pytest.mark.parametrize(
    ("code", "details", "trailing", "is_local"),
    [
        ("UNAVAILABLE", "Stream removed (recvmsg:Connection reset by peer (104))", (), True),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: ...", (), True),
        ("UNAVAILABLE", "Socket closed: the process of pid 7 closed the connection", (), True),
        ("UNAVAILABLE", "the arm: connection refused", (), False),
        ("UNAVAILABLE", "Socket closed", (("served", "yes"),), False),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", (), True),
        ("DEADLINE_EXCEEDED", "too slow", (), False),
        ("CANCELLED", "Locally cancelled by application!", (), True),
        ("CANCELLED", "the handler gave up", (), False),
    ],
)
def test_whose_side_ended_a_call_is_told_by_the_words_that_only_the_transports_use(
    code: str, details: str, trailing: Any, is_local: bool
) -> None:
    said = {"code": grpc.StatusCode[code], "details": details, "trailing_metadata": trailing}
    found = ending(SimpleNamespace(**{name: lambda value=value: value for name, value in said.items()}))
    assert (found.code, found.is_local) == (code, is_local)


def test_what_grpc_wraps_into_stream_removed_is_the_text_itself() -> None:
    text = "CLIENT: Received message larger than max (5 vs. 4)"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ending(SimpleNamespace(code=lambda: code, details=lambda: f"Stream removed ({text})")).details == text


def test_the_end_of_the_process_waits_a_moment_for_shadows_then_closes_the_policy(
    serve: Any, policy: Any, router: Any
) -> None:
    go_on = threading.Event()
    with serve(
        candidate={"unary_unary Echo": lambda request, _: (go_on.wait(PATIENCE_S), request)[1]}
    ).channel() as channel:
        channel.unary_unary(ECHO)(b"x")
        router.close()
        assert policy.is_closed
        note = policy.only()
        assert (note.shadow, note.why) == (None, "the program ended before the shadow had answered")
        assert list(note.primary.items) == [b"x"]
        channel.unary_unary(ECHO)(b"y")  # a program that goes on at its end
        assert policy.wait(2)[-1].why == "too many shadows are under way"
        go_on.set()


def test_a_forked_child_has_shadows_of_its_own(pair: Any, policy: Any) -> None:
    """Its channel is new, as after every fork; threads and jobs of the parent's are not waited for."""
    policy.default = Decision("shm", "shm", "shadow")
    never_closed: list[Any] = []  # gRPC's own half at times crashes a forked child that closes it, or drops it
    with pair.channel() as channel:
        channel.unary_unary(ECHO)(b"x")
        policy.wait()

        def work() -> None:
            policy.notes.clear()
            never_closed.append(pair.channel())
            never_closed[0].unary_unary(ECHO)(b"y", timeout=PATIENCE_S)
            assert list(policy.only().shadow.items) == [b"y"]

        assert in_a_child(work)


def test_an_engine_that_ends_is_no_evidence_against_one_transport(pair: Any, policy: Any) -> None:
    """The candidate is never there; the primary goes as soon as it has answered."""
    pair.endpoint = f"shm://{unique_name()}"
    with pair.channel() as channel:
        assert channel.unary_unary(ECHO)(b"x") == b"x"
        pair.control.stop(None).wait(PATIENCE_S)
        assert (policy.only().shadow, policy.only().why) == (None, "the engine has gone")
