"""Programs that do not attach drive together, as over LuckyEngine; one that attached drives alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.stepping_program import stepping
from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import Busy
from lucky_transport.serving import Serving
from lucky_transport_grpc import _pb
from lucky_transport_grpc.runtime import grpc

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp here")

STEP = "/hazel.rpc.AgentService/Step"


@pytest.fixture
def serving(serve: Callable[..., Serving]) -> Serving:
    return serve(idle_s=3600.0)


@pytest.fixture
def other_program(serving: Serving) -> Iterator[Callable[[], str]]:
    """Return a function that lets another process step agent_0, and says what came of it."""
    with stepping(str(serving.endpoints[0])) as step:
        yield step


def _step(channel: Any) -> Any:
    found = _pb.methods()[STEP]
    call = channel.unary_unary(STEP, found.request.SerializeToString, found.response.FromString)
    return call(found.request(agent_name="agent_0", actions=[0, 0]), timeout=PATIENCE_S)


def test_a_blocking_and_an_asyncio_channel_of_one_program_both_step(serving: Serving) -> None:
    address = serving.endpoints[0].address

    async def alternate(blocking: Any) -> list[int]:
        numbers: list[int] = []
        async with grpc.aio.insecure_channel(address) as channel:
            for _ in range(3):
                numbers.append((await _step(channel)).observation.frame_number)
                numbers.append(_step(blocking).observation.frame_number)
        return numbers

    with grpc.insecure_channel(address) as blocking:
        first = _step(blocking).observation.frame_number
        assert asyncio.run(alternate(blocking)) == [first + count for count in range(1, 7)]


def test_several_programs_step_one_engine(serving: Serving, stub: Any, other_program: Callable[[], str]) -> None:
    ours = stub(serving)
    numbers: list[int] = []
    for _ in range(3):
        numbers.append(ours.call("Step").observation.frame_number)
        assert other_program() == "stepped\n"
    assert numbers == [1, 3, 5]


def test_calls_of_many_programs_come_one_after_the_other(serving: Serving, stub: Any) -> None:
    stubs = [stub(serving) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda one: [one.call("Step").observation.frame_number for _ in range(25)], stubs)
    assert sorted(number for numbers in found for number in numbers) == list(range(1, 201))


@pytest.mark.exhaustive
def test_a_client_that_attaches_gets_the_engine_when_the_last_connection_has_ended(
    serving: Serving, stub: Any, connect: Any, zeros: Any, other_program: Callable[[], str]
) -> None:
    one, two = stub(serving), stub(serving)
    one.call("Step")
    two.call("Step")
    client = connect(serving)
    for ours in (one, two):
        with pytest.raises(Busy, match="is driven by grpc client ipv4:"):
            client.step(zeros(client))
        ours.channel.close()
    assert client.step(zeros(client)).seq == 1
    assert other_program().startswith("RESOURCE_EXHAUSTED engine 'toy' is driven by grpc client of pid")
    client.close()
    until(lambda: other_program() == "stepped\n")


def test_a_step_that_is_cancelled_while_it_waits_is_not_done(serving: Serving, stub: Any) -> None:
    first, second = stub(serving), stub(serving)
    found = _pb.methods()[STEP]
    step = second.channel.unary_unary(STEP, found.request.SerializeToString, found.response.FromString)
    with serving.host.between_steps():
        waiting = step.future(found.request(agent_name="agent_0", actions=[0, 0]), timeout=PATIENCE_S)
        until(lambda: serving.host.lock.waiters)
        waiting.cancel()
        assert waiting.cancelled()
        # The server learns of it through a connection that is idle otherwise: a call on it that ends afterwards.
        second.call("GetAgentSchema")
    until(lambda: not serving.host.lock.waiters)
    assert first.call("Step").observation.frame_number == 1
