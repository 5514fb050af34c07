"""The service config of a channel: retries, timeouts and `waitForReady` of its methods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import SERVICE, Ends, method_handler, path
from ..invoking import FREE_WAYS, WAYS, Way, argument, ended, invoke, received
from ..records import PATIENCE_S, Record, attempt, entries, happened, taken
from ..registry import case, each
from ..service_configs import POLICY, PUSHBACKS, SLOW, WRONG, of_json, options

_BLOCKING = [way for way in WAYS if way.arity.startswith("unary") and way.style in ("blocking", "iterator")]


class Flaky:
    """A behaviour that fails its first calls, before or after it `says` something, and then echoes."""

    def __init__(
        self, arity: str, failures: int, says: Callable[[Any], Any] = lambda context: None, code: str = "UNAVAILABLE"
    ) -> None:
        self._arity = arity
        self._failures = failures
        self._says = says
        self._code = code
        self.met: list[Any] = []
        self.begun = threading.Event()

    def __call__(self, request: Any, context: Any) -> Any:
        if self._arity.endswith("stream"):
            return self._stream(request, context)
        return self._answer(request, context)

    def _stream(self, request: Any, context: Any) -> Iterator[bytes]:
        yield self._answer(request, context)
        yield b"last"

    def _answer(self, request: Any, context: Any) -> bytes:
        payload = received(self._arity, request)
        self.met.append((payload, entries(context.invocation_metadata())))
        self.begun.set()
        if len(self.met) <= self._failures:
            self._says(context)
            context.set_trailing_metadata((("attempt", str(len(self.met))),))
            context.abort(grpc.StatusCode[self._code], "not yet")
        return payload


def _call(ends: Ends, way: Way, flaky: Flaky, given: Any, **more: Any) -> Record:
    method = ends.method(way.arity, flaky, channel_options=given)
    return {"call": invoke(way.style, method, argument(way.arity), **more), "met": flaky.met}


@each(way=WAYS, failures=(0, 1, 2, 3))
def is_retried(ends: Ends, way: Way, failures: int) -> Record:
    return _call(ends, way, Flaky(way.arity, failures), options({"retryPolicy": POLICY}))


@each(way=WAYS)
def metadata_of_the_caller_come_after(ends: Ends, way: Way) -> Record:
    sent = (("x", "y"), ("grpc-previous-rpc-attempts", "7"), ("raw-bin", b"\x00"))
    return _call(ends, way, Flaky(way.arity, 1), options({"retryPolicy": POLICY}), metadata=sent, timeout=PATIENCE_S)


@each(way=WAYS)
def another_code_is_not_retried(ends: Ends, way: Way) -> Record:
    return _call(ends, way, Flaky(way.arity, 1, code="ABORTED"), options({"retryPolicy": POLICY}))


@each(way=WAYS)
def retries_are_switched_off(ends: Ends, way: Way) -> Record:
    return _call(ends, way, Flaky(way.arity, 1), (*options({"retryPolicy": POLICY}), ("grpc.enable_retries", 0)))


@each(attempts=("4", 5, 9))
def attempts_are_at_most_five(ends: Ends, attempts: Any) -> Record:
    policy = {**POLICY, "maxAttempts": attempts}
    return _call(ends, WAYS[0], Flaky("unary_unary", 9), options({"retryPolicy": policy}))


@each(way=WAYS, headers=((), (("first", "1"),)))
def initial_metadata_commit(ends: Ends, way: Way, headers: Any) -> Record:
    flaky = Flaky(way.arity, 1, lambda context: context.send_initial_metadata(headers))
    return _call(ends, way, flaky, options({"retryPolicy": POLICY}))


@each(arity=("unary_stream", "stream_stream"))
def a_message_commits(ends: Ends, arity: str) -> Record:
    met: list[Any] = []

    def behaviour(request: Any, context: Any) -> Iterator[bytes]:
        met.append(received(arity, request))
        yield b"first"
        context.abort(grpc.StatusCode.UNAVAILABLE, "too late")

    method = ends.method(arity, behaviour, channel_options=options({"retryPolicy": POLICY}))
    return {"call": invoke("iterator", method, argument(arity)), "met": met}


@each(way=[way for way in WAYS if way.arity.endswith("unary")])
def a_response_with_a_code_commits(ends: Ends, way: Way) -> Record:
    met: list[Any] = []

    def behaviour(request: Any, context: Any) -> bytes:
        met.append(received(way.arity, request))
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b"and yet a response"

    method = ends.method(way.arity, behaviour, channel_options=options({"retryPolicy": POLICY}))
    return {"call": invoke(way.style, method, argument(way.arity)), "met": met}


@each(way=_BLOCKING, pushback=PUSHBACKS)
def the_server_says_when(ends: Ends, way: Way, pushback: str) -> Record:
    met: list[int] = []

    def behaviour(request: Any, context: Any) -> Any:
        met.append(len(met))
        context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "later")

    policy = SLOW if pushback in ("1", "20") else POLICY
    method = ends.method(way.arity, behaviour, channel_options=options({"retryPolicy": policy}))
    seen = invoke(way.style, method, b"", timeout=PATIENCE_S)
    return {"raised": "raised" in seen, "met": len(met)}


@case
def failures_use_up_the_tokens(ends: Ends) -> Record:
    met: list[bytes] = []

    def behaviour(request: bytes, context: Any) -> bytes:
        met.append(request)
        if request == b"fail":
            context.abort(grpc.StatusCode.UNAVAILABLE, "no")
        return request

    throttling = {"maxTokens": 6, "tokenRatio": "0.7009"}
    method = ends.unary_unary(behaviour, channel_options=options({"retryPolicy": POLICY}, retryThrottling=throttling))
    attempts: list[int] = []
    for request in (b"fail", b"fail", b"fail", *(b"well" for _ in range(5)), b"fail", b"fail"):
        met.clear()
        attempt(method, request)
        attempts.append(len(met))
    return {"attempts": attempts}


@each(method=("Method", "Other", "Third"))
def the_closest_name_counts(ends: Ends, method: str) -> Record:
    met: list[int] = []

    def behaviour(request: bytes, context: Any) -> None:
        met.append(1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "no")

    names = {
        2: [{"service": SERVICE, "method": "Method"}],
        3: [{"service": SERVICE, "method": "Other"}, {"service": SERVICE}],
        4: [{}],
    }
    configs = [{"name": name, "retryPolicy": {**POLICY, "maxAttempts": most}} for most, name in names.items()]
    served = ends.serve({one: method_handler("unary_unary", behaviour) for one in ("Method", "Other", "Third")})
    channel = ends.connect(served.target, of_json({"methodConfig": configs}))
    return {**attempt(channel.unary_unary(path(method)), b""), "met": len(met)}


@case
def a_closer_name_without_a_policy_has_none(ends: Ends) -> Record:
    flaky = Flaky("unary_unary", 1)
    named = {"name": [{"service": SERVICE, "method": "Method"}], "waitForReady": False}
    return _call(ends, WAYS[0], flaky, options({"retryPolicy": POLICY}, named))


@each(what=WRONG)
def is_wrong(ends: Ends, what: str) -> Record:
    method = ends.unary_unary(lambda request, context: request, channel_options=of_json(WRONG[what]))
    return attempt(method, b"", wait_for_ready=True, timeout=PATIENCE_S)


@each(way=WAYS)
def is_wrong_in_every_way(ends: Ends, way: Way) -> Record:
    return _call(ends, way, Flaky(way.arity, 0), of_json([]))


@each(text=("", "{", "nonsense", '{"a": NaN}', '{"a": 1, "a": 2}'))
def is_no_json(ends: Ends, text: str) -> Record:
    method = ends.unary_unary(lambda request, context: request, channel_options=(("grpc.service_config", text),))
    return attempt(method, b"")


@each(what=("hedgingPolicy", "unknown"))
def unknown_fields_are_ignored(ends: Ends, what: str) -> Record:
    return _call(ends, WAYS[0], Flaky("unary_unary", 1), options({what: {"maxAttempts": 3}}))


@each(way=_BLOCKING[:1], timeouts=((2.5, None), (60, 0.2), (2.5, 60)))
def has_a_timeout(ends: Ends, way: Way, timeouts: Any) -> Record:
    configured, asked = timeouts
    gate = ends.gate()

    def behaviour(request: Any, context: Any) -> Any:
        gate.wait(PATIENCE_S)
        return iter(()) if way.arity.endswith("stream") else b""

    method = ends.method(way.arity, behaviour, channel_options=options({"timeout": f"{configured}s"}))
    seen = invoke(way.style, method, argument(way.arity), timeout=asked)
    return {key: value for key, value in seen.items() if key != "time remains"}


@each(way=WAYS)
def waits_for_a_server(ends: Ends, way: Way) -> Record:
    channel = ends.connect(ends.address(), options({"waitForReady": True}))
    return invoke(way.style, getattr(channel, way.arity)(path()), argument(way.arity), timeout=0.2)


@each(way=FREE_WAYS)
def waits_for_a_server_that_comes(ends: Ends, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(way.arity, 1)
    channel = ends.connect(address, options({"waitForReady": True, "retryPolicy": POLICY}))
    method = getattr(channel, way.arity)(path())
    call = (method.future if way.style == "future" else method)(argument(way.arity), timeout=PATIENCE_S)
    ends.serve({"Method": method_handler(way.arity, flaky)}, address=address)
    result = attempt(call.result) if way.style == "future" else taken(call)
    return {"result": result, "met": flaky.met, **ended(call)}


@case
def the_caller_does_not_wait(ends: Ends) -> Record:
    channel = ends.connect(ends.address(), options({"waitForReady": True}))
    seen = attempt(channel.unary_unary(path()), b"", wait_for_ready=False, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"]}


@each(way=FREE_WAYS)
def is_retried_until_a_server_comes(ends: Ends, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(way.arity, 0)
    policy = {**POLICY, "initialBackoff": "1s", "maxBackoff": "1s"}
    method = getattr(ends.connect(address, options({"retryPolicy": policy})), way.arity)(path())
    call = (method.future if way.style == "future" else method)(argument(way.arity))
    ends.serve({"Method": method_handler(way.arity, flaky)}, address=address)
    result = attempt(call.result) if way.style == "future" else taken(call)
    return {"result": result, "payloads": [payload for payload, _ in flaky.met], **ended(call)}


@each(way=FREE_WAYS)
def is_retried_unwatched(ends: Ends, way: Way) -> Record:
    flaky = Flaky(way.arity, 2)
    told = threading.Event()

    def says(context: Any) -> None:
        if len(flaky.met) == 2:
            told.set()

    flaky._says = says  # type: ignore[attr-defined]
    method = ends.method(way.arity, flaky, channel_options=options({"retryPolicy": POLICY}))
    call = (method.future if way.style == "future" else method)(argument(way.arity))
    seen: Record = {"two attempts": happened(told)}
    seen["result"] = attempt(call.result) if way.style == "future" else taken(call)
    return {**seen, **ended(call)}


@each(way=FREE_WAYS, how=("cancel", "close"))
def ends_between_attempts(ends: Ends, way: Way, how: str) -> Record:
    flaky = Flaky(way.arity, 9)
    served = ends.serve({"Method": method_handler(way.arity, flaky)})
    channel = ends.connect(served.target, options({"retryPolicy": SLOW}))
    method = getattr(channel, way.arity)(path())
    call = (method.future if way.style == "future" else method)(argument(way.arity))
    seen: Record = {"begun": happened(flaky.begun)}
    if how == "cancel":
        call.cancel()
    else:
        channel.close()
    seen["result"] = attempt(call.result) if way.style == "future" else taken(call)
    return {**seen, **ended(call), "met": len(flaky.met)}


@each(way=WAYS)
def expires_between_attempts(ends: Ends, way: Way) -> Record:
    return _call(ends, way, Flaky(way.arity, 9), options({"retryPolicy": SLOW}), timeout=0.3)


@each(size=(10, 1000))
def many_requests_are_not_kept(ends: Ends, size: int) -> Record:
    flaky = Flaky("stream_unary", 1)
    given = (*options({"retryPolicy": POLICY}), ("grpc.per_rpc_retry_buffer_size", 600))
    method = ends.stream_unary(flaky, channel_options=given)
    return {**attempt(method, iter(bytes([48 + n]) * size for n in range(4))), "met": len(flaky.met)}


@each(arity=("stream_unary", "stream_stream"))
def the_iterator_fails(ends: Ends, arity: str) -> Record:
    def requests() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("no more")

    method = ends.method(arity, Flaky(arity, 1), channel_options=options({"retryPolicy": POLICY}))
    style = "blocking" if arity == "stream_unary" else "iterator"
    return invoke(style, method, requests(), timeout=PATIENCE_S)


@each(arity=("stream_unary", "stream_stream"))
def an_attempt_ends_before_the_requests(ends: Ends, arity: str) -> Record:
    failed, met = threading.Event(), list[Any]()

    def behaviour(requests: Any, context: Any) -> Any:
        met.append(next(requests))
        if len(met) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "at once")
        failed.set()
        rest = list(requests)
        met.extend(rest)
        return iter(rest) if arity.endswith("stream") else b"+".join(rest)

    def requests() -> Iterator[bytes]:
        yield b"one"
        failed.wait(PATIENCE_S)
        yield b"two"
        yield b"three"

    method = ends.method(arity, behaviour, channel_options=options({"retryPolicy": POLICY}))
    style = "blocking" if arity == "stream_unary" else "iterator"
    return {**invoke(style, method, requests(), timeout=PATIENCE_S), "met": met}
