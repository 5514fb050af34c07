"""What threads do on the loop's thread, and that it goes on serving whatever a signal handler raises in it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.shm.eventfd import EventFd
from lucky_transport_stubs.aio.server_loop_reader import ServerLoopReader
from lucky_transport_stubs.aio.sync_context import await_on


async def give(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


async def test_a_thread_gets_what_the_coroutine_returns_or_raises(ends: Any) -> None:
    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(lambda: await_on(loop, give(3))) == 3
    for error in (ValueError("boom"), TimeoutError("its own")):
        with pytest.raises(type(error), match=str(error)):
            await asyncio.to_thread(lambda error=error: await_on(loop, give(error)))


def test_a_closed_loop_is_told_at_once() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        await_on(loop, give(3))


def test_a_thread_does_not_wait_for_a_loop_that_has_stopped() -> None:
    raised: list[Exception] = []
    loop = asyncio.new_event_loop()

    def work() -> None:
        try:
            await_on(loop, asyncio.sleep(3600))
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=work)

    async def start() -> None:
        thread.start()
        while len(asyncio.all_tasks()) < 2:
            await asyncio.sleep(0.001)

    loop.run_until_complete(start())
    thread.join(20)
    assert [str(error) for error in raised] == ["the event loop of the server has ended"]
    loop.run_until_complete(asyncio.sleep(0.01))  # the coroutine was cancelled, and ends when it can
    assert not asyncio.all_tasks(loop)
    loop.close()


class InterruptedLoop:
    """In the place of `ServerLoop`: its second look is interrupted, and no descriptor says when to look again."""

    patience_ns = None

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.looks = 0

    def fileno(self) -> int:
        return self._fd

    def look(self) -> bool:
        self.looks += 1
        if self.looks == 2:
            raise TimeoutError("a signal handler's")
        return self.looks == 1


async def test_an_interrupted_look_is_made_again() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    with EventFd() as event:
        serving = InterruptedLoop(event.fd)
        reader = ServerLoopReader(cast(Any, serving), loop)
        for _ in range(5):
            await asyncio.sleep(0)
        assert serving.looks == 3
        reader.close()
