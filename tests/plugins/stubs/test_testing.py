"""The cases for users: our channels and gRPC's own pass all of them, and a channel that breaks a promise does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="a channel is gRPC's")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.testing import CHANNEL_CASES, channel_service, run_channel_cases

MakeChannel = Callable[[], Any]


@pytest.fixture(params=["ours", "grpc"])
def make_channel(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[MakeChannel]:
    """A way to make channels to a server of the cases, over either implementation."""
    ours = request.param == "ours"
    target = f"shm://{unique_name()}" if ours else f"unix:{tmp_path}/socket"
    with ThreadPoolExecutor(8) as pool:
        server = (lucky_transport_stubs.server if ours else grpc.server)(pool, handlers=[channel_service()])
        server.add_insecure_port(target)
        server.start()
        yield lambda: (lucky_transport_stubs.channel if ours else grpc.insecure_channel)(target)
        server.stop(None).wait(10)


@pytest.mark.parametrize("name", CHANNEL_CASES)
def test_a_channel_passes(name: str, make_channel: MakeChannel) -> None:
    with make_channel() as channel:
        CHANNEL_CASES[name](channel)


def test_all_cases_run_at_once_and_are_named(make_channel: MakeChannel) -> None:
    assert run_channel_cases(make_channel) == list(CHANNEL_CASES)


def test_a_channel_without_full_duplex_is_not_asked_for_it(make_channel: MakeChannel) -> None:
    assert set(CHANNEL_CASES) - set(run_channel_cases(make_channel, full_duplex=False)) == {"converses"}


class _Forgetful(
    grpc.UnaryUnaryClientInterceptor, grpc.StreamUnaryClientInterceptor
):  # of the details of a call, it hands on the method alone
    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(client_call_details._replace(timeout=None, metadata=None), request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return self.intercept_unary_unary(continuation, client_call_details, request_iterator)


def test_a_channel_that_breaks_promises_is_told_which(make_channel: MakeChannel) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        run_channel_cases(lambda: grpc.intercept_channel(make_channel(), _Forgetful()))
    broken = {note for error in caught.value.exceptions for note in error.__notes__}
    forgotten = ("fails", "expires", "shows_metadata")
    # A handler that is not told to wait may answer before it is cancelled.
    by_chance = {f"case is_cancelled[{arity}]" for arity in ("unary_unary", "stream_unary")}
    assert broken - by_chance == {
        f"case {case}[{arity}]" for case in forgotten for arity in ("unary_unary", "stream_unary")
    }
