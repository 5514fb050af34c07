"""Programs that do not attach drive together, one that attached drives alone; the kernel tells which has gone."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_grpc.caller import is_gone
from tests.support.stepping_program import stepping
from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

from lucky_transport.errors import Busy
from lucky_transport.serving import Serving
from lucky_transport.testing.suite import zeros
from lucky_transport_grpc import _pb

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
    serving: Serving, stub: Any, connect: Any, other_program: Callable[[], str]
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
    with serving.host.between_steps():
        waiting = second.start("Step", agent_name="agent_0", actions=[0, 0])
        until(lambda: serving.host.lock.waiters)
        waiting.cancel()
        assert waiting.cancelled()
        # The server learns of it through a connection that is idle otherwise: a call on it that ends afterwards.
        second.call("GetAgentSchema")
    until(lambda: not serving.host.lock.waiters)
    assert first.call("Step").observation.frame_number == 1


# --- the kernel's table of connections ---


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_peer_is_there_until_its_connection_ends(family: int, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {host} here: {error}")
    with server:
        port = server.getsockname()[1]
        client = socket.create_connection((host, port))
        peer = f"{'ipv4' if family == socket.AF_INET else 'ipv6'}:{host}:{client.getsockname()[1]}"
        accepted, _ = server.accept()
        assert not is_gone(peer, port)
        assert is_gone(peer, port + 1)
        client.close()
        until(lambda: is_gone(peer, port))
        accepted.close()


@pytest.mark.parametrize("peer", ["unix:", "unix:/run/x.sock", "ipv4:127.0.0.1", "somewhere", ""])
def test_a_peer_without_a_port_may_still_be_there(peer: str) -> None:
    assert not is_gone(peer, 50051)


def test_without_a_table_a_peer_may_still_be_there(tmp_path: Path) -> None:
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path / "none"),))
    (tmp_path / "table").write_text("  sl  local_address rem_address   st\n")
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path / "table"),))
    assert not is_gone("ipv4:127.0.0.1:1", 50051, (str(tmp_path),))


def test_a_connection_that_is_closing_has_gone(tmp_path: Path) -> None:
    table = tmp_path / "table"
    row = "   0: 0100007F:C383 0100007F:0001 {} 00000000:00000000 00:00000000 00000000\n"
    for state, gone in (("01", False), ("06", True), ("08", True)):
        table.write_text("  sl  local_address rem_address   st\n" + row.format(state))
        assert is_gone("ipv4:127.0.0.1:1", 50051, (str(table),)) == gone
