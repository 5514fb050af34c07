"""The cases for users: our channels and gRPC's own pass all of them, and a channel that breaks a promise does not."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="a channel is gRPC's")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.testing import CHANNEL_CASES, channel_service, run_channel_cases


@pytest.fixture(params=["ours", "grpc"])
def make_channel(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Callable[[], Any]]:
    ours = request.param == "ours"
    target = f"shm://{unique_name()}" if ours else f"unix:{tmp_path}/socket"
    with ThreadPoolExecutor(8) as pool:
        server = (lucky_transport_stubs.server if ours else grpc.server)(pool, handlers=[channel_service()])
        server.add_insecure_port(target)
        server.start()
        yield lambda: (lucky_transport_stubs.channel if ours else grpc.insecure_channel)(target)
        server.stop(None).wait(10)


def test_a_channel_passes_all_cases(make_channel: Callable[[], Any]) -> None:
    assert run_channel_cases(make_channel) == list(CHANNEL_CASES)
    assert set(CHANNEL_CASES) - set(run_channel_cases(make_channel, full_duplex=False)) == {"converses"}


class Forgetful(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(client_call_details._replace(timeout=None, metadata=None), request)


def test_a_channel_that_breaks_promises_fails_by_their_names(make_channel: Callable[[], Any]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        run_channel_cases(lambda: grpc.intercept_channel(make_channel(), Forgetful()))
    broken = {note for error in caught.value.exceptions for note in error.__notes__}
    by_chance = {"case is_cancelled[unary_unary]"}  # a handler that is not told to wait may answer first
    assert broken - by_chance == {f"case {name}[unary_unary]" for name in ("fails", "expires", "shows_metadata")}
