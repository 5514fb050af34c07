"""Cases for any `grpc.Channel`: does it keep the contract of a channel in every arity and every way a call can end?

    server.add_generic_rpc_handlers((channel_service(),))              # what the cases call
    run_channel_cases(lambda: lucky_transport_stubs.channel("shm://name"))

A pytest suite runs them one by one: parametrize over `CHANNEL_CASES` and call `CHANNEL_CASES[name](channel)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

from lucky_transport_grpc.runtime import grpc

#: Every wait of a case ends within this time.
PATIENCE_S = 10.0

_SERVICE = "lucky_transport.ChannelCases"
_REQUESTS = [b"", b"request", bytes(range(256)) * 300]

# Arity, which is its method's name too -> the responses of a call that succeeds.
_RESPONSES = {
    "unary_unary": _REQUESTS[-1:],
    "unary_stream": _REQUESTS[-1:] * 3,
    "stream_unary": [b"".join(_REQUESTS)],
    "stream_stream": _REQUESTS,
}

# Metadata by which a call asks the service for an ending, and which comes back, so that payloads can be anything.
_FAIL, _WAIT = ("case-fail", "DATA_LOSS"), ("case-wait", "yes")
_ECHOED = ("case-echo", "text"), ("case-echo-bin", b"\x00\xff")


def channel_service() -> Any:
    """Return the generic handler of the service that the cases call; add it to the server under test."""
    handlers = {
        arity: getattr(grpc, f"{arity}_rpc_method_handler")(_stream if arity.endswith("stream") else _unary)
        for arity in _RESPONSES
    }
    return grpc.method_handlers_generic_handler(_SERVICE, handlers)


def run_channel_cases(make_channel: Callable[[], Any], *, full_duplex: bool = True) -> list[str]:
    """Run every case on a channel of its own; return their names.

    Without `full_duplex`, those are left out that respond before the requests end. Raises ExceptionGroup of the errors
    of all cases that failed, each with the name of its case as a note.
    """
    failures: list[Exception] = []
    names = [name for name in CHANNEL_CASES if full_duplex or name != "converses"]
    for name in names:
        with make_channel() as channel:
            try:
                CHANNEL_CASES[name](channel)
            except Exception as error:
                error.add_note(f"case {name}")
                failures.append(error)
    if failures:
        raise ExceptionGroup("the channel does not do what a channel promises", failures)
    return names


# -- the service ---------------------------------------------------------------------------------------------------


def _end_as_asked(context: Any) -> None:
    asked = tuple(context.invocation_metadata())
    echoed = tuple(pair for pair in _ECHOED if pair in asked)
    context.send_initial_metadata(echoed)
    context.set_trailing_metadata(echoed)
    over = Event()
    if _WAIT in asked and context.add_callback(over.set):
        over.wait(PATIENCE_S)
    if _FAIL in asked:
        context.abort(grpc.StatusCode.DATA_LOSS, "as asked")


def _unary(request: Any, context: Any) -> bytes:
    _end_as_asked(context)
    return request if isinstance(request, bytes) else b"".join(request)


def _stream(request: Any, context: Any) -> Iterator[bytes]:
    _end_as_asked(context)
    yield from ([request] * 3 if isinstance(request, bytes) else request)


# -- the cases -----------------------------------------------------------------------------------------------------


def _begin(channel: Any, arity: str, *metadata: tuple[str, str | bytes], timeout: float = PATIENCE_S) -> Any:
    """Begin a call; return it as a future or an iterator."""
    method = getattr(channel, arity)(f"/{_SERVICE}/{arity}")
    argument = iter(_REQUESTS) if arity.startswith("stream") else _REQUESTS[-1]
    return (method if arity.endswith("stream") else method.future)(argument, timeout=timeout, metadata=metadata)


def _responses(call: Any, arity: str) -> list[bytes]:
    return list(call) if arity.endswith("stream") else [call.result(PATIENCE_S)]


def _expect(what: str, wanted: Any, got: Any) -> None:
    assert got == wanted, f"{what}: wanted {wanted!r}, got {got!r}"


def _expect_status(call: Any, arity: str, code: grpc.StatusCode) -> grpc.RpcError:
    try:
        responses = _responses(call, arity)
    except grpc.RpcError as error:
        _expect("code", code, error.code())
        return error
    raise AssertionError(f"wanted {code}, got {responses!r}")


def _succeeds(channel: Any, arity: str) -> None:
    call = _begin(channel, arity)
    _expect("responses", _RESPONSES[arity], _responses(call, arity))
    _expect("code", grpc.StatusCode.OK, call.code())


def _fails(channel: Any, arity: str) -> None:
    error = _expect_status(_begin(channel, arity, _FAIL), arity, grpc.StatusCode.DATA_LOSS)
    _expect("details", "as asked", error.details())


def _expires(channel: Any, arity: str) -> None:
    _expect_status(_begin(channel, arity, _WAIT, timeout=0.2), arity, grpc.StatusCode.DEADLINE_EXCEEDED)


def _is_cancelled(channel: Any, arity: str) -> None:
    call = _begin(channel, arity, _WAIT)
    _expect("first cancel", True, call.cancel())
    _expect("second cancel", False, call.cancel())
    _expect("code", grpc.StatusCode.CANCELLED, call.code())
    _expect("cancelled", True, call.cancelled())


def _shows_metadata(channel: Any, arity: str) -> None:
    call = _begin(channel, arity, *_ECHOED)
    _responses(call, arity)
    for what, metadata in (("initial", call.initial_metadata()), ("trailing", call.trailing_metadata())):
        _expect(f"{what} metadata", _ECHOED, tuple((key, value) for key, value in metadata))


def _runs_side_by_side(channel: Any, arity: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(_succeeds, channel, arity) for _ in range(20)]:
            future.result(PATIENCE_S)


def _converses(channel: Any) -> None:
    """Responses come while requests are still being made."""
    responded = Event()

    def requests() -> Iterator[bytes]:
        yield b"first"
        assert responded.wait(PATIENCE_S), "no response before the requests ended"
        yield b"second"

    call = channel.stream_stream(f"/{_SERVICE}/stream_stream")(requests(), timeout=PATIENCE_S)
    _expect("first response", b"first", next(call))
    responded.set()
    _expect("second response", [b"second"], list(call))


def _is_not_implemented(channel: Any) -> None:
    call = channel.unary_unary(f"/{_SERVICE}/missing").future(b"", timeout=PATIENCE_S)
    _expect_status(call, "unary_unary", grpc.StatusCode.UNIMPLEMENTED)


def _becomes_ready(channel: Any) -> None:
    grpc.channel_ready_future(channel).result(PATIENCE_S)


_OF_EACH_ARITY = (_succeeds, _fails, _expires, _is_cancelled, _shows_metadata, _runs_side_by_side)
_OF_ANY_CHANNEL = (_converses, _is_not_implemented, _becomes_ready)

#: Name -> case, called with a channel to a server that has the `channel_service`. A case that fails raises an
#: AssertionError that says what came instead, or what the call raised.
CHANNEL_CASES: dict[str, Callable[[Any], None]] = {
    f"{case.__name__[1:]}[{arity}]": partial(case, arity=arity) for case in _OF_EACH_ARITY for arity in _RESPONSES
} | {case.__name__[1:]: case for case in _OF_ANY_CHANNEL}
