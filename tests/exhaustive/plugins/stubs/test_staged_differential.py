"""A sixth part of the cases about channels and calls: a channel at a stage does what the one that answers does.

So it does where nothing is behind the other side: at the end of a migration there may be no gRPC server left, and
before it no engine in shared memory.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("grpc", reason="there is nothing to compare with")

from lucky_transport.routing import Decision
from lucky_transport_stubs.staged import channels
from tests.plugins.stubs.differential.comparing import differences, load_cases
from tests.plugins.stubs.differential.conftest import grpcs_core_is_never_shut_down, quiet
from tests.plugins.stubs.differential.ends import OURS, REAL, Implementation
from tests.plugins.stubs.differential.registry import Case, quick
from tests.plugins.stubs.staged.conftest import ToldPolicy, policy, router

__all__ = ["grpcs_core_is_never_shut_down", "policy", "quiet", "router"]

ABOUT = ("appearances", "calls", "channels", "client_interceptors", "concurrency", "futures", "metadata")
ABOUT += ("outcomes", "requests", "responses", "sizes", "statuses", "streams", "transport")
#: Those that name an address; what a channel says of its target, and of its state within, is that of gRPC's side.
NOT = ("channel_and_a_server", "channel_and_server", "outcomes.finds_no_server[", "waiting_for_no_server")
CASES = [
    case
    for case in quick(load_cases())
    if case.name.removeprefix("aio_").partition(".")[0] in ABOUT and not any(name in case.name for name in NOT)
]
SIDES = {"grpc": (REAL, "unix:nobody"), "shm": (OURS, "shm://nobody")}


def staged(answering: str) -> Implementation:
    """Return an implementation whose channels are staged, and whose other side leads nowhere."""

    def sides(kind: str, target: str, options: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            name: getattr(made, kind)(target if name == answering else nowhere, options=options, **arguments)
            for name, (made, nowhere) in SIDES.items()
        }

    def opener(kind: str, opened: Callable[..., Any]) -> Callable[..., Any]:
        def open_channel(target: str, options: Any = (), interceptors: Any = (), **arguments: Any) -> Any:
            more = {"interceptors": interceptors} if kind.startswith("aio") else {}
            return opened(target, sides(kind, target, options, arguments), {}, None, options=options, **more)

        return open_channel

    return replace(
        SIDES[answering][0],
        name=f"staged over {answering}",
        channel=opener("channel", channels.open_channel),
        secure_channel=opener("secure_channel", channels.open_channel),
        aio_channel=opener("aio_channel", channels.open_aio_channel),
        aio_secure_channel=opener("aio_secure_channel", channels.open_aio_channel),
    )


@pytest.mark.parametrize("answering", SIDES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_staged_channel_does_what_the_channel_that_answers_does(
    case: Case, answering: str, policy: ToldPolicy
) -> None:
    policy.default = Decision(answering)
    assert differences(case, staged(answering), SIDES[answering][0]) == {}, "(plain, staged)"
