"""Cases that any `grpc.Channel` passes: the contract of a channel in every arity and every way a call can end.

@pytest.mark.parametrize("case", CHANNEL_CASES)
def test_it_passes(case): CHANNEL_CASES[case](channel)             # to a server that has the `channel_service`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from lucky_transport_grpc.runtime import grpc

#: Every wait of a case ends within this time.
PATIENCE_S = 10.0

_SERVICE = "lucky_transport.ChannelCases"
_METHODS = {"unary_unary": "Unary", "unary_stream": "Answers", "stream_unary": "Requests", "stream_stream": "Talk"}

# Metadata keys by which a request asks the service for an ending, so that payloads can be anything.
_FAIL, _WAIT, _ECHO, _ECHO_BINARY = "case-fail", "case-wait", "case-echo", "case-echo-bin"

_REQUESTS = (b"", b"request", bytes(range(256)) * 300)

Case = Callable[[Any], None]


def channel_service() -> Any:
    """Return the generic handler of the service that the cases call; add it to the server under test."""
    handlers = {
        name: getattr(grpc, f"{arity}_rpc_method_handler")(_stream if arity.endswith("stream") else _unary)
        for arity, name in _METHODS.items()
    }
    return grpc.method_handlers_generic_handler(_SERVICE, handlers)


# -- the service ---------------------------------------------------------------------------------------------------


def _obey(context: Any) -> None:
    """Do what the metadata of a call asks for."""
    wishes = dict(context.invocation_metadata())
    context.send_initial_metadata(tuple((key, wishes[key]) for key in (_ECHO, _ECHO_BINARY) if key in wishes))
    context.set_trailing_metadata(tuple((key, wishes[key]) for key in (_ECHO, _ECHO_BINARY) if key in wishes))
    if _WAIT in wishes:
        over = Event()
        context.add_callback(over.set)
        over.wait(PATIENCE_S)
    if _FAIL in wishes:
        context.abort(grpc.StatusCode[wishes[_FAIL]], f"asked for {wishes[_FAIL]}")


def _unary(request: Any, context: Any) -> bytes:
    _obey(context)
    return request if isinstance(request, bytes) else b"".join(request)


def _stream(request: Any, context: Any) -> Iterator[bytes]:
    _obey(context)
    yield from ([request] * 3 if isinstance(request, bytes) else request)


# -- the cases -----------------------------------------------------------------------------------------------------


def _call(channel: Any, arity: str, *wishes: tuple[str, str | bytes], timeout: float = PATIENCE_S) -> Any:
    """Begin a call that asks for all this; return it as a future or an iterator."""
    method = getattr(channel, arity)(f"/{_SERVICE}/{_METHODS[arity]}")
    argument = iter(_REQUESTS) if arity.startswith("stream") else _REQUESTS[-1]
    begin = method if arity.endswith("stream") else method.future
    return begin(argument, timeout=timeout, metadata=wishes)


def _answer(call: Any, arity: str) -> list[bytes]:
    return list(call) if arity.endswith("stream") else [call.result(PATIENCE_S)]


def _expect(what: str, wanted: Any, got: Any) -> None:
    assert got == wanted, f"{what}: wanted {wanted!r}, got {got!r}"


def _succeeds(channel: Any, arity: str) -> None:
    wanted = {
        "unary_unary": [_REQUESTS[-1]],
        "unary_stream": [_REQUESTS[-1]] * 3,
        "stream_unary": [b"".join(_REQUESTS)],
        "stream_stream": list(_REQUESTS),
    }[arity]
    call = _call(channel, arity)
    _expect("answer", wanted, _answer(call, arity))
    _expect("code", grpc.StatusCode.OK, call.code())


def _fails(channel: Any, arity: str) -> None:
    _ends_as(_call(channel, arity, (_FAIL, "DATA_LOSS")), arity, "DATA_LOSS", "asked for DATA_LOSS")


def _expires(channel: Any, arity: str) -> None:
    _ends_as(_call(channel, arity, (_WAIT, "yes"), timeout=0.2), arity, "DEADLINE_EXCEEDED")


def _ends_as(call: Any, arity: str, code: str, details: str | None = None) -> None:
    try:
        answer = _answer(call, arity)
    except grpc.RpcError as error:
        raised: Any = error
    else:
        raise AssertionError(f"wanted {code}, got the answer {answer!r}")
    _expect("code", code, raised.code().name)
    if details is not None:
        _expect("details", details, raised.details())


def _is_cancelled(channel: Any, arity: str) -> None:
    call = _call(channel, arity, (_WAIT, "yes"))
    _expect("first cancel", True, call.cancel())
    _expect("second cancel", False, call.cancel())
    _expect("code", grpc.StatusCode.CANCELLED, call.code())
    _expect("cancelled", True, call.cancelled())


def _shows_metadata(channel: Any, arity: str) -> None:
    sent = ((_ECHO, "text"), (_ECHO_BINARY, b"\x00\xff"))
    call = _call(channel, arity, *sent)
    _answer(call, arity)
    for what, metadata in (("initial", call.initial_metadata()), ("trailing", call.trailing_metadata())):
        _expect(f"{what} metadata", sent, tuple((key, value) for key, value in metadata))


def _runs_side_by_side(channel: Any, arity: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(_succeeds, channel, arity) for _ in range(20)]:
            future.result(PATIENCE_S)


def _converses(channel: Any) -> None:
    """Answers come while requests are still being made."""
    answered = Event()

    def requests() -> Iterator[bytes]:
        yield b"first"
        assert answered.wait(PATIENCE_S), "no answer before the requests ended"
        yield b"second"

    call = channel.stream_stream(f"/{_SERVICE}/Talk")(requests(), timeout=PATIENCE_S)
    _expect("first answer", b"first", next(call))
    answered.set()
    _expect("second answer", [b"second"], list(call))


def _is_not_implemented(channel: Any) -> None:
    call = channel.unary_unary(f"/{_SERVICE}/Missing").future(b"", timeout=PATIENCE_S)
    _ends_as(call, "unary_unary", "UNIMPLEMENTED")


def _becomes_ready(channel: Any) -> None:
    grpc.channel_ready_future(channel).result(PATIENCE_S)


def _of_each_arity(case: Callable[[Any, str], None]) -> dict[str, Case]:
    name = case.__name__.strip("_")
    return {f"{name}[{arity}]": lambda channel, arity=arity: case(channel, arity) for arity in _METHODS}


#: Name -> case, called with a channel to a server that has the `channel_service`. A case that fails raises an
#: AssertionError that says what came instead.
CHANNEL_CASES: dict[str, Case] = {
    **_of_each_arity(_succeeds),
    **_of_each_arity(_fails),
    **_of_each_arity(_expires),
    **_of_each_arity(_is_cancelled),
    **_of_each_arity(_shows_metadata),
    **_of_each_arity(_runs_side_by_side),
    "converses": _converses,
    "is_not_implemented": _is_not_implemented,
    "becomes_ready": _becomes_ready,
}
