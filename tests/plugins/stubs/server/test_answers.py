"""What callers get for what handlers do wrong, beside what `differential` compares with grpc.server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc

UNARY_RESPONSE = ("unary_unary", "stream_unary")
STREAM_RESPONSE = ("unary_stream", "stream_stream")
ARITIES = UNARY_RESPONSE + STREAM_RESPONSE


def joined(request: Any) -> bytes:
    return request if isinstance(request, bytes) else b"+".join(request)


def behaviour(arity: str, answer: Any) -> Any:
    """Return a handler that answers `answer(all requests, context)`, once or as a stream of one."""

    def one(request: Any, context: Any) -> Any:
        return answer(joined(request), context)

    def many(request: Any, context: Any) -> Iterator[Any]:
        yield answer(joined(request), context)

    return many if arity in STREAM_RESPONSE else one


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize(
    ("answer", "code", "details"),
    [
        (lambda request, context: 1 / 0, "UNKNOWN", "division by zero"),
        (lambda request, context: context.abort(grpc.StatusCode.NOT_FOUND, "nothing ☺"), "NOT_FOUND", "nothing ☺"),
        (lambda request, context: context.abort(grpc.StatusCode.OK, "fine"), "UNKNOWN", ""),
        (lambda request, context: context.abort(5, "a number"), "UNKNOWN", "a number"),
        (lambda request, context: "no bytes", "INTERNAL", "Failed to serialize response!"),
        (lambda request, context: exit(3), "UNKNOWN", "3"),
    ],
    ids=["raises", "aborts", "aborts with OK", "aborts with a number", "returns no message", "exits"],
)
def test_what_a_handler_does_wrong_is_a_status(
    serve: Any, dial: Any, refused: Any, arity: str, answer: Any, code: str, details: str
) -> None:
    client = dial(serve({f"{arity} Method": behaviour(arity, answer)}))
    argument = iter([b"x"]) if arity.startswith("stream") else b"x"
    found = refused(getattr(client, arity)("Method"), argument)
    if details in ("division by zero", "3"):
        doing = "calling application" if arity in UNARY_RESPONSE else "iterating responses"
        details = f"Exception {doing}: {details}"
    assert found == (code, details)


@pytest.mark.parametrize("arity", ARITIES)
def test_a_request_that_cannot_be_read_is_an_internal_error(serve: Any, dial: Any, refused: Any, arity: str) -> None:
    make = getattr(grpc, f"{arity}_rpc_method_handler")
    handler = make(behaviour(arity, lambda request, context: request), request_deserializer=int)
    client = dial(serve({f"{arity} Method": handler}))
    argument = iter([b"x"]) if arity.startswith("stream") else b"x"
    assert refused(getattr(client, arity)("Method"), argument) == ("INTERNAL", "Exception deserializing request!")


def test_a_caller_who_expects_one_response_of_a_stream_gets_one_or_an_error(
    serve: Any, dial: Any, refused: Any
) -> None:
    def count(request: bytes, context: Any) -> Iterator[bytes]:
        return (b"%d" % number for number in range(int(request)))

    client = dial(serve({"unary_stream Count": count}))
    assert client.unary_unary("Count")(b"1", timeout=PATIENCE_S) == b"0"
    for number in (b"0", b"2"):
        assert refused(client.unary_unary("Count"), number)[0] == "INTERNAL"
