"""The cases for users: our channels and gRPC's own pass all of them, and a channel that breaks a promise does not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="a channel is gRPC's")

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.testing import CHANNEL_CASES, channel_service, run_channel_cases

from .differential.ends import OURS, REAL, Ends


@pytest.fixture(params=[OURS, REAL], ids=["ours", "grpc"])
def make_channel(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    with Ends(request.param) as ends:
        target = ends.begin_at(ends.server(channel_service()))
        yield lambda: ends.connect(target)


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
