"""The differences that no case can compare, because real gRPC hangs, crashes or means a network: what ours does."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from .aio_ends import AioEnds
from .ends import Ends, method_handler, path
from .records import PATIENCE_S, Record, attempt, entries, taken
from .samples import credentials, giving

README = Path(__file__).parents[4] / "plugins" / "lucky_transport_stubs" / "README.md"


def metadata_of(request: bytes, context: Any) -> bytes:
    return repr(entries(context.invocation_metadata())).encode()


def code_of(seen: Record) -> str:
    return seen["raised"]["code"]


def with_config(**fields: Any) -> list[tuple[str, str]]:
    """Return the options of a channel whose service config says this of every method."""
    return [("grpc.service_config", json.dumps({"methodConfig": [{"name": [{}], **fields}]}))]


def test_every_row_of_the_readme_names_its_test() -> None:
    _, _, after = README.read_text(encoding="utf-8").partition("## Different beyond the cases\n")
    rows = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"`test_\w+` \|$", row)] == []


@pytest.mark.parametrize("secure", ["channel", "server"])
def test_credentials_of_one_end_alone_connect(ends: Ends, secure: str) -> None:
    of_port = grpc.local_server_credentials() if secure == "server" else None
    of_channel: dict[str, Any] = {"credentials": grpc.local_channel_credentials()} if secure == "channel" else {}
    served = ends.serve({"Method": method_handler("unary_unary", metadata_of)}, credentials=of_port)
    assert "value" in attempt(ends.connect(served.target, **of_channel).unary_unary(path()), b"", timeout=PATIENCE_S)


def _with_plugin(ends: Ends, behaviour: Any) -> Record:
    served = ends.serve(
        {"Method": method_handler("unary_unary", metadata_of)}, credentials=grpc.local_server_credentials()
    )
    channel = ends.connect(served.target, credentials=grpc.local_channel_credentials())
    return attempt(channel.unary_unary(path()), b"", credentials=credentials(behaviour), timeout=PATIENCE_S)


def _ends_its_thread(context: Any, callback: Any) -> None:
    raise SystemExit("enough")


@pytest.mark.parametrize("behaviour", [giving(17), giving(("key",)), giving(((1, 2),)), _ends_its_thread])
def test_a_plugin_that_gives_no_metadata_ends_the_call(ends: Ends, behaviour: Any) -> None:
    assert code_of(_with_plugin(ends, behaviour)) == "UNAVAILABLE"


def test_te_of_a_plugin_is_dropped(ends: Ends) -> None:
    assert _with_plugin(ends, giving((("te", "x"), ("key", "1")))) == {"value": b"[('key', '1')]"}


def test_a_servicer_that_sets_what_is_no_compression_gets_an_answer(ends: Ends) -> None:
    def behaviour(request: bytes, context: Any) -> bytes:
        context.set_compression("zip")
        return request

    assert code_of(attempt(ends.unary_unary(behaviour), b"", timeout=PATIENCE_S)) == "UNKNOWN"


def test_a_load_balancing_policy_that_is_not_known_changes_nothing(ends: Ends) -> None:
    config = [("grpc.service_config", json.dumps({"loadBalancingConfig": [{"no such policy": {}}]}))]
    assert "value" in attempt(ends.unary_unary(metadata_of, channel_options=config), b"", timeout=PATIENCE_S)


def test_the_server_is_told_the_timeout_of_a_service_config(ends: Ends) -> None:
    def left(request: bytes, context: Any) -> bytes:
        return b"told" if context.time_remaining() <= PATIENCE_S else b"not told"

    method = ends.unary_unary(left, channel_options=with_config(timeout=f"{int(PATIENCE_S)}s"))
    assert attempt(method, b"") == {"value": b"told"}


@pytest.mark.parametrize(("pushback", "attempts"), [("0", 2), ("soon", 1)])
def test_a_pushback_is_followed_at_once_or_ends_the_call(ends: Ends, pushback: str, attempts: int) -> None:
    made: list[bytes] = []

    def behaviour(request: bytes, context: Any) -> bytes:
        made.append(request)
        if len(made) == 1:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return request

    policy = {
        "maxAttempts": 3,
        "initialBackoff": "3600s",
        "maxBackoff": "3600s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    method = ends.unary_unary(behaviour, channel_options=with_config(retryPolicy=policy))
    seen = attempt(method, b"request", timeout=PATIENCE_S)
    assert len(made) == attempts
    if attempts == 1:
        assert ("grpc-retry-pushback-ms", pushback) in seen["raised"]["trailing"]


def test_the_error_of_a_call_that_failed_here_has_a_text(ends: Ends) -> None:
    call = ends.connect(ends.address()).unary_unary(path()).future(b"")
    assert "UNAVAILABLE" in call.exception(PATIENCE_S).debug_error_string()


@pytest.mark.parametrize("items", [[], [b"one", b"two"]], ids=["none", "two"])
def test_a_unary_caller_of_a_stream_of_another_length_gets_an_answer(ends: Ends, items: list[bytes]) -> None:
    handler = method_handler("unary_stream", lambda request, context: iter(items))
    channel = ends.connect(ends.serve({"Method": handler}).target)
    assert code_of(attempt(channel.unary_unary(path()), b"", timeout=PATIENCE_S)) == "INTERNAL"


@pytest.mark.parametrize("arity", ["unary_unary", "unary_stream"])
def test_a_method_that_exits_ends_its_call_alone(ends: Ends, arity: str) -> None:
    def behaviour(request: bytes, context: Any) -> bytes:
        raise SystemExit("enough")

    method = ends.method(arity, behaviour)
    seen = attempt(lambda: method(b"", timeout=PATIENCE_S) if arity == "unary_unary" else next(method(b"")))
    assert (code_of(seen), seen["raised"]["details"]) == ("UNKNOWN", "Exception calling application: enough")


async def test_an_abort_with_ok_of_asyncio_is_unknown(aio: AioEnds) -> None:
    async def behaviour(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.OK, "fine")
        return request

    call = (await aio.unary_unary(behaviour))(b"", timeout=PATIENCE_S)
    assert await call.code() is grpc.StatusCode.UNKNOWN


async def test_a_handler_of_one_request_refuses_a_stream_without_requests_in_asyncio(aio: AioEnds) -> None:
    class Refusing(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    method = await aio.method("stream_unary", lambda requests, context: b"", interceptors=[Refusing()])
    call = method(iter(()), timeout=PATIENCE_S)
    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "requires exactly one request message" in await call.details()


def test_the_next_call_finds_a_server_that_is_back(ends: Ends) -> None:
    handlers = {"Method": method_handler("unary_unary", metadata_of)}
    address = ends.address()
    method = ends.connect(address).unary_unary(path())
    for _ in range(3):
        assert code_of(attempt(method, b"", timeout=PATIENCE_S)) == "UNAVAILABLE"
        served = ends.serve(handlers, address=address)
        assert "value" in attempt(method, b"", timeout=PATIENCE_S)
        assert served.server.stop(None).wait(PATIENCE_S)


def test_a_callback_with_what_is_no_bytes_ends_the_call(ends: Ends) -> None:
    returned = threading.Event()

    def behaviour(request: bytes, context: Any, respond: Any) -> None:
        respond("no bytes")
        returned.set()

    vars(behaviour)["experimental_non_blocking"] = True
    seen = taken(ends.unary_stream(behaviour)(b"", timeout=PATIENCE_S))
    assert seen["ended"]["code"] == "INTERNAL"
    assert returned.wait(PATIENCE_S)
