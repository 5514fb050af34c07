"""A forked child: its channels connect anew, its parent's calls, channels and servers go on undisturbed."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from tests.support.waiting import PATIENCE_S, in_a_child, until_in_loop

from ..differential.aio_ends import AioEnds
from ..differential.both import ASYNCIO, BOTH
from ..differential.ends import OURS, Ends, path
from .conftest import ECHO, Client, Held, OurAioEnds, Service, failure

Code = grpc.StatusCode
State = grpc.ChannelConnectivity


@pytest.fixture(params=BOTH)
def connect(request: pytest.FixtureRequest, ends: Ends, spawn: Any) -> Iterator[Callable[[], Callable[[bytes], None]]]:
    """Make channels of threads, or of one loop that runs during their calls; returns what calls and checks."""
    spawn(target := ends.address())
    loop = asyncio.new_event_loop()
    aio = AioEnds(OURS)

    async def made() -> Any:
        return aio.connect(target).unary_unary(path("Echo"))

    async def awaited(echo: Any, text: bytes) -> bytes:
        return await echo(text, timeout=PATIENCE_S)

    def channel() -> Callable[[bytes], None]:
        if request.param == ASYNCIO:
            method = loop.run_until_complete(made())
            echo = lambda text: loop.run_until_complete(awaited(method, text))  # noqa: E731
        else:
            echo = ends.connect(target).unary_unary(path("Echo"))

        def check(text: bytes) -> None:
            assert echo(text) == text

        return check

    loop.run_until_complete(aio.__aenter__())
    yield channel
    loop.run_until_complete(aio.__aexit__(None, None, None))
    loop.close()


@pytest.mark.parametrize("used", [False, True], ids=["idle", "used"])
def test_a_forked_child_connects_anew_and_its_parent_goes_on(connect: Any, used: bool) -> None:
    call = connect()
    if used:
        call(b"before")

    def work() -> None:
        call(b"child")
        assert in_a_child(lambda: call(b"grandchild"))
        connect()(b"a channel of its own")

    assert in_a_child(work)
    call(b"the parent goes on")


def test_those_who_subscribed_are_the_parents(stub: Client) -> None:
    states: list[Any] = []
    stub.channel.subscribe(states.append)
    stub.unary_unary("Echo")(b"x")

    def work() -> None:
        known = tuple(states)
        assert stub.unary_unary("Echo").future(b"child").result(timeout=PATIENCE_S) == b"child"
        assert list(stub.unary_stream("Count")(b"1")) == [b"0"]
        assert stub.stream_unary("Join")(iter([b"a", b"b"])) == b"ab"
        assert tuple(states) == known
        stub.channel.close()

    assert in_a_child(work)


def test_a_child_of_a_channel_in_use_connects_anew(stub: Client) -> None:
    ended, wrong, echo = threading.Event(), list[bytes](), stub.unary_unary("Echo")

    def work() -> None:
        while not ended.is_set():
            if echo(b"parent") != b"parent":
                wrong.append(b"parent")

    def child() -> None:
        assert echo(b"child") == b"child"

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        assert in_a_child(child)
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_calls_under_way_end_in_the_child_and_go_on_in_the_parent(stub: Client, service: Service) -> None:
    kept = [stub.unary_unary("Wait").future(b"x"), stub.unary_stream("Linger")(b"y")]

    def work() -> None:
        for wait in (kept[0].result, lambda: next(kept[1])):
            error = failure(wait)
            assert error.code() is Code.CANCELLED
            assert "belongs to the parent process" in error.details()
        assert kept[1].initial_metadata() == ()
        assert not kept[0].cancel()
        assert not kept[1].is_active()
        assert stub.unary_unary("Echo")(b"child") == b"child"
        kept.clear()
        stub.channel.close()

    assert in_a_child(work)
    assert next(kept[1]) == b"y"
    assert kept[1].is_active()
    service.released.set()
    assert kept[0].result(timeout=PATIENCE_S) == b"x"


async def test_a_forked_child_that_runs_another_loop_is_told_why_not(aio: OurAioEnds) -> None:
    client = await aio.pair(ECHO)
    assert await client.unary_unary("Echo")(b"x") == b"x"

    async def in_the_child() -> None:
        with pytest.raises(grpc.aio.UsageError, match="belongs to the event loop of the parent process"):
            client.unary_unary("Echo")(b"x")
        client.channel.__del__()

    assert in_a_child(lambda: asyncio.run(in_the_child()))
    for _ in range(3):
        assert await client.unary_unary("Echo")(b"y") == b"y"


async def test_a_channel_whose_last_call_is_waited_for_is_closed_in_a_forked_child(aio: OurAioEnds) -> None:
    held = Held()
    client = await aio.pair(held.methods)
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    closing = asyncio.create_task(client.channel.close(grace=PATIENCE_S))
    await asyncio.sleep(0)

    def in_the_child() -> None:
        assert client.channel.get_state() is State.SHUTDOWN

    assert in_a_child(in_the_child)
    assert client.channel.get_state() is State.READY
    held.release.set()
    assert await call == b"done"
    await closing


_SERVER = """
import os, sys, warnings
warnings.simplefilter("ignore")
from concurrent.futures import ThreadPoolExecutor
import lucky_transport_stubs
from tests.plugins.stubs.differential.ends import generic_handler, path
server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
server.add_generic_rpc_handlers((generic_handler({"unary_unary Echo": lambda request, context: request}),))
server.add_insecure_port(sys.argv[1])
server.start()
child = os.fork()
if not child:
    server.stop(None)
    sys.exit(0)  # as a program ends, with all that is done then
assert os.waitpid(child, 0)[1] == 0
channel = lucky_transport_stubs.channel(sys.argv[1])
print(channel.unary_unary(path("Echo"))(b"still here", timeout=20))
channel.close()
server.stop(None)
"""


def test_a_forked_child_leaves_its_parents_server_alone(ends: Ends, run: Any) -> None:
    program = run(_SERVER, ends.address())
    assert program.communicate(timeout=PATIENCE_S) == ("b'still here'\n", "")
    assert program.returncode == 0
