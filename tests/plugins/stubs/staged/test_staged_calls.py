"""Calls of a staged channel: the caller gets the primary's answer, the policy gets both."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison

grpc = pytest.importorskip("grpc")

from lucky_transport_migration.compare.rules import ComparisonRules  # noqa: E402
from lucky_transport_migration.evidence.call_comparison import compare  # noqa: E402
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL  # noqa: E402
from lucky_transport_migration.routing.routed_call import OWN  # noqa: E402

ECHO, COUNT, SUM, CHAT = (f"/t.Test/{name}" for name in ("Echo", "Count", "Sum", "Chat"))
OVER_SHM = Decision("shm", "grpc", "shm")


def seen(outcome: CallOutcome | None) -> tuple[Any, ...] | None:
    """What must be the same of two answers."""
    return outcome and (list(outcome.items), outcome.code, outcome.details, outcome.headers, outcome.trailing)


def is_equal(comparison: Comparison) -> bool:
    return comparison.why == "" and seen(comparison.shadow) == seen(comparison.primary)


@pytest.mark.parametrize("decision", [Decision("grpc", "shm", "shadow"), OVER_SHM])
def test_every_arity_and_way_to_call_is_answered_by_the_authority_and_compared(
    channel: Any, policy: Any, decision: Decision
) -> None:
    policy.decision = decision
    echo, add = channel.unary_unary(ECHO), channel.stream_unary(SUM)
    assert echo(b"x", timeout=10) == b"x"
    assert echo.with_call(b"y")[0] == b"y"
    assert echo.future(b"z").result(10) == b"z"
    assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
    assert add(iter([b"a", b"b"])) == b"ab"
    assert add.with_call(iter([b"c"]))[0] == b"c"
    assert add.future(iter([b"d"])).result(10) == b"d"
    assert list(channel.stream_stream(CHAT)(iter([b"a", b"b"]))) == [b"a", b"b"]
    for comparison in policy.wait(8):
        assert is_equal(comparison), comparison
        assert (comparison.primary.transport, comparison.primary.code) == (decision.primary, "OK")
        assert comparison.shadow is not None
        assert comparison.shadow.transport == decision.shadow
        assert not comparison.ended_early
        assert comparison.primary.took_us > 0
        assert comparison.shadow.took_us > 0
        for side in (comparison.primary, comparison.shadow):
            assert (0 < side.first_us <= side.took_us) if comparison.method in (COUNT, CHAT) else side.first_us == 0
        assert ("order between requests and responses" in comparison.unseen) == (comparison.method == CHAT)
    found = {(one.method, str(one.request)): list(one.primary.items) for one in policy.noted}
    assert found[ECHO, str(b"y")] == [b"y"]
    assert found[COUNT, str(b"ab")] == [b"a", b"b"]
    assert found[SUM, str([b"a", b"b"])] == [b"ab"]
    assert found[CHAT, str([b"a", b"b"])] == [b"a", b"b"]


def test_a_call_without_a_shadow_is_noted_too(channel: Any, policy: Any) -> None:
    policy.decision = Decision("shm", stage="complete")
    assert channel.unary_unary(ECHO)(b"x") == b"x"
    comparison = policy.only()
    assert comparison.decision == policy.decision
    assert (comparison.shadow, comparison.why, comparison.request) == (None, OWN, b"x")
    assert list(comparison.primary.items) == [b"x"]


@pytest.mark.parametrize("decision", [Decision("grpc"), Decision("shm")])
def test_what_the_caller_gets_is_the_very_object_of_the_primarys_channel(
    pair: Any, policy: Any, decision: Decision
) -> None:
    policy.decision = decision
    plain = pair.blocking()[decision.primary]()
    with pair.channel() as staged, plain:
        assert type(staged.unary_stream(COUNT)(b"")) is type(plain.unary_stream(COUNT)(b""))
        assert type(staged.stream_stream(CHAT)(iter(b""))) is type(plain.stream_stream(CHAT)(iter(b"")))
        assert type(staged.unary_unary(ECHO).future(b"")) is type(plain.unary_unary(ECHO).future(b""))
        response = object()
        assert staged.unary_unary(ECHO, lambda _: b"x", lambda _: response)("anything") is response
        with pytest.raises(grpc.RpcError) as caught:
            staged.unary_unary("/t.Test/Nothing")(b"")
        with pytest.raises(grpc.RpcError) as expected:
            plain.unary_unary("/t.Test/Nothing")(b"")
        assert type(caught.value) is type(expected.value)
        assert (caught.value.code(), caught.value.details()) == (expected.value.code(), expected.value.details())


def test_status_details_and_metadata_of_both_are_noted(serve: Any, policy: Any) -> None:
    def refuse(request: bytes, context: Any) -> None:
        sent = [pair for pair in context.invocation_metadata() if pair[0].startswith("key")]
        context.send_initial_metadata(sent)
        context.set_trailing_metadata((("tail-bin", b"\x00"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "nobody here")

    with serve({"unary_unary Refuse": refuse, "unary_stream Refuses": refuse}).channel() as channel:
        metadata = (pair for pair in [("key", "a"), ("key-bin", b"\x01")])
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/t.Test/Refuse")(b"", metadata=metadata)
        assert caught.value.details() == "nobody here"
        with pytest.raises(grpc.RpcError):
            list(channel.unary_stream("/t.Test/Refuses")(b""))
    unary, stream = sorted(policy.wait(2), key=lambda one: one.method)
    assert is_equal(unary)
    assert is_equal(stream)
    assert seen(unary.shadow) == (
        [],
        "NOT_FOUND",
        "nobody here",
        (("key", "a"), ("key-bin", b"\x01")),
        (("tail-bin", b"\x00"),),
    )


@pytest.mark.parametrize("decision", [Decision("grpc", "shm", "shadow"), OVER_SHM, Decision("grpc")])
def test_a_response_beside_an_error_is_nobodys_answer(serve: Any, policy: Any, decision: Decision) -> None:
    def refuse(request: Any, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        return b"unseen"

    policy.decision = decision
    methods = {"unary_unary Refuse": refuse, "stream_unary Refuses": refuse}
    with serve(methods).channel() as channel:
        refused = channel.unary_unary("/t.Test/Refuse")
        with pytest.raises(grpc.RpcError):
            refused(b"")
        assert refused.future(b"").exception(10).code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError):
            channel.stream_unary("/t.Test/Refuses")(iter((b"",)))
    for comparison in policy.wait(3):
        assert (list(comparison.primary.items), comparison.primary.code) == ([], "NOT_FOUND")
        assert comparison.shadow is None or is_equal(comparison)


def test_a_candidate_that_answers_otherwise_is_noted_and_not_heard(serve: Any, policy: Any) -> None:
    def reversed_count(request: bytes, _: Any) -> Iterator[bytes]:
        return (bytes([item]) for item in reversed(request))

    candidate = {"unary_unary Echo": lambda request, _: request + b"!", "unary_stream Count": reversed_count}
    with serve(candidate=candidate).channel() as channel:
        assert channel.unary_unary(ECHO)(b"x") == b"x"
        assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
        shadows = {one.method: one.shadow for one in policy.wait(2)}
    assert list(shadows[ECHO].items) == [b"x!"]
    assert list(shadows[COUNT].items) == [b"b", b"a"]


def test_a_long_stream_is_compared_to_its_end_by_count_and_digest(channel: Any, policy: Any) -> None:
    assert len(list(channel.unary_stream(COUNT)(bytes(1000)))) == 1000
    comparison = policy.only()
    assert not comparison.ended_early
    assert [(len(one.items), one.more) for one in (comparison.primary, comparison.shadow)] == [(256, 744)] * 2
    assert comparison.primary.rest == comparison.shadow.rest != ""
    assert compare(comparison, ComparisonRules()).verdict == EQUAL


@pytest.mark.parametrize("altered", ["lost", "changed"])
def test_an_item_beyond_those_that_are_kept_is_found_when_it_is_lost_or_changed(
    serve: Any, policy: Any, altered: str
) -> None:
    def count(_: bytes, context: Any) -> Iterator[bytes]:
        is_wrong = type(context).__module__.startswith("lucky_transport")
        for number in range(400):
            if not (is_wrong and altered == "lost" and number == 300):
                yield b"x" if is_wrong and number == 300 else number.to_bytes(4)

    with serve({"unary_stream Count": count}).channel() as channel:
        list(channel.unary_stream(COUNT)(b""))
        found = compare(policy.only(), ComparisonRules())
    aspect, where = ("count", "items") if altered == "lost" else ("item", "items beyond the first 256")
    assert (found.verdict, found.aspect, found.where) == (DIFFERENT, aspect, where)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"])
@pytest.mark.parametrize("decision", [Decision("grpc", "shm", "shadow"), OVER_SHM])
def test_whatever_status_a_handler_chose_is_its_answer(serve: Any, policy: Any, decision: Decision, code: str) -> None:
    policy.decision = decision

    def echo(_: bytes, context: Any) -> Any:
        over = "shm" if type(context).__module__.startswith("lucky_transport") else "grpc"
        context.set_trailing_metadata((("over", over),))
        context.abort(grpc.StatusCode[code], "the arm: connection refused")

    with serve({"unary_unary Echo": echo}).channel() as channel:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(ECHO)(b"", timeout=30)
        assert dict(raised.value.trailing_metadata())["over"] == decision.primary, "it is not asked of the other one"
        found = compare(policy.only(), ComparisonRules())
    assert (found.verdict, found.aspect, found.where) == (DIFFERENT, "trailing", "over")
    assert found.primary.local is False


@pytest.mark.parametrize("decision", [Decision("grpc", "shm"), OVER_SHM])
@pytest.mark.parametrize("leave", ["cancel", "drop"])
def test_a_stream_that_the_caller_leaves_is_compared_as_far_as_both_came(
    serve: Any, policy: Any, decision: Decision, leave: str
) -> None:
    policy.decision = decision

    def count(request: bytes, context: Any) -> Iterator[bytes]:
        for number in range(100_000):
            if not context.is_active():
                return
            yield number.to_bytes(4)

    with serve({"unary_stream Count": count}).channel() as channel:
        call = channel.unary_stream(COUNT)(b"")
        assert next(call) == bytes(4)
        if leave == "cancel":
            call.cancel()
        del call
        gc.collect()
        comparison = policy.only()
    assert comparison.ended_early
    assert comparison.shadow is not None
    common = min(len(comparison.primary.items), len(comparison.shadow.items))
    assert common
    assert comparison.primary.items[:common] == comparison.shadow.items[:common]


def test_a_unary_call_that_is_cancelled_is_not_compared(serve: Any, policy: Any) -> None:
    def wait(request: bytes, context: Any) -> bytes:
        over = threading.Event()
        context.add_callback(over.set)
        over.wait(10)
        return b""

    with serve({"unary_unary Echo": wait}, {"unary_unary Echo": lambda request, _: request}).channel() as channel:
        call = channel.unary_unary(ECHO).future(b"")
        assert call.cancel()
        assert call.cancelled()
        comparison = policy.only()
    assert (comparison.primary.code, comparison.shadow) == ("CANCELLED", None)
    assert comparison.why == "the call did not come to its end"


def test_requests_that_have_not_ended_are_not_sent_again(serve: Any, policy: Any) -> None:
    control = {"stream_unary Sum": lambda requests, _: next(requests)}
    with serve(control).channel() as channel:

        def requests() -> Iterator[bytes]:
            yield b"first"
            policy.wait()
            yield b"late"

        assert channel.stream_unary(SUM)(requests()) == b"first"
        comparison = policy.only()
    assert (comparison.shadow, comparison.why) == (None, "the requests had not ended")


def test_more_requests_than_are_kept_are_not_sent_again(channel: Any, policy: Any) -> None:
    assert channel.stream_unary(SUM)(iter([b"x"] * 300)) == b"x" * 300
    comparison = policy.only()
    assert (comparison.shadow, comparison.why) == (None, "more than 256 requests are not kept")


def test_a_request_that_cannot_be_serialized_concerns_no_transport(channel: Any, policy: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(ECHO, request_serializer=lambda _: 1 / 0)(b"")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert channel.unary_unary(ECHO)(b"x") == b"x"
    assert policy.only().request == b"x"


@pytest.mark.parametrize("is_different", [True, False], ids=["different", "equal"])
def test_answers_that_a_change_overlaps_are_not_compared_equal_or_not(
    serve: Any, policy: Any, is_different: bool
) -> None:
    has_changed = threading.Event()

    def change(request: bytes, _: Any) -> bytes:
        has_changed.set()
        return b""

    def slow_read(request: bytes, _: Any) -> bytes:
        has_changed.wait(10)
        return b"1" if is_different else b"0"

    policy.decisions = {"/t.Test/Set": Decision("grpc")}
    control = {"unary_unary Read": lambda *_: b"0", "unary_unary Set": change}
    with serve(control, {"unary_unary Read": slow_read}).channel() as channel:
        assert channel.unary_unary("/t.Test/Read")(b"") == b"0"
        channel.unary_unary("/t.Test/Set")(b"1")
        comparison = next(one for one in policy.wait(2) if one.method == "/t.Test/Read")
    assert (comparison.shadow, comparison.why) == (None, "the world changed before both had answered")


@pytest.mark.parametrize("way", ["future", "stream", "aio"])
def test_a_change_that_begins_before_the_read_and_ends_after_it_overlaps_it(serve: Any, policy: Any, way: str) -> None:
    """The numbers of begun and ended changes are the same before and after the read: only the mark tells."""
    begun, may_end = threading.Event(), threading.Event()

    def change(request: bytes, _: Any) -> bytes:
        begun.set()
        may_end.wait(10)
        return b""

    policy.decisions = dict.fromkeys(("/t.Test/Set", "/t.Test/Run"), Decision("grpc"))
    services = {
        "unary_unary Set": change,
        "unary_stream Run": lambda request, context: iter([change(request, context)]),
        "unary_unary Read": lambda *_: b"0",
    }
    pair = serve(services)

    async def change_in_a_loop() -> None:
        async with pair.aio_channel() as channel:
            await channel.unary_unary("/t.Test/Set")(b"")

    with pair.channel() as channel:
        reading = channel.unary_unary("/t.Test/Read")
        if way == "aio":
            changing = threading.Thread(target=lambda: asyncio.run(change_in_a_loop()))
            changing.start()
            end = changing.join
        elif way == "future":
            end = channel.unary_unary("/t.Test/Set").future(b"").result
        else:
            items = channel.unary_stream("/t.Test/Run")(b"")
            end = lambda: list(items)  # noqa: E731
        assert begun.wait(10)
        assert reading(b"") == b"0"
        comparison = next(one for one in policy.wait() if one.method == "/t.Test/Read")
        assert (comparison.shadow, comparison.why) == (None, "the world changed before both had answered")
        may_end.set()
        end()
        policy.wait(2)
        assert reading(b"") == b"0"
        assert is_equal(policy.wait(3)[-1]), "the change is over"


@pytest.mark.parametrize("end", ["closed", "refused"])
def test_a_change_that_cannot_be_made_is_over(pair: Any, policy: Any, end: str) -> None:
    policy.decisions = {"/t.Test/Set": Decision("grpc")}
    with pair.channel() as channel:
        if end == "closed":
            channel._sides["grpc"].close()
        with pytest.raises((ValueError, TypeError)):
            channel.unary_unary("/t.Test/Set")(b"", timeout="soon" if end == "refused" else None)
        world = channel._routed.world
        assert world.stood_still(world.mark())
