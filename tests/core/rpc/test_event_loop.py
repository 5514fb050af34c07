"""What has an event loop read a connection goes on whatever a callback raises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from lucky_transport.rpc.event_loop import LoopCondition, LoopReader
from lucky_transport.shm.eventfd import EventFd
from tests.support.interrupted_moments import interrupted_at


class Connection:
    """In the place of `ClientCalls`: an answer is expected, nothing turns readable, and some steps are interrupted."""

    def __init__(self, fd: int, interrupted: str) -> None:
        self._fd = fd
        self.interrupted = interrupted
        self.is_armed = False
        self.on_break: Any = None

    def _raise_once(self, step: str) -> None:
        if step == self.interrupted:
            self.interrupted = ""
            raise TimeoutError("a signal handler's")

    def fileno(self) -> int:
        return self._fd

    def expect(self) -> bool:
        self.is_armed = False
        self._raise_once("expect")
        return True

    def pump(self) -> None:
        self._raise_once("pump")

    def arm(self) -> bool:
        self._raise_once("arm")
        self.is_armed = True
        return False


@pytest.fixture
def fd() -> Iterator[int]:
    with EventFd() as event:
        yield event.fd


@pytest.mark.parametrize("step", ["expect", "pump", "arm"])
async def test_a_reader_arms_its_descriptor_also_after_an_interrupt(fd: int, step: str) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    connection = Connection(fd, "")
    reader = LoopReader(cast(Any, connection), loop)
    await asyncio.sleep(0)
    assert connection.is_armed
    connection.interrupted = step
    try:
        reader.expect()
    except TimeoutError:
        assert step == "expect"
    assert not connection.is_armed
    for _ in range(3):
        await asyncio.sleep(0)
    assert connection.is_armed, "the peer was told that it need not wake us, and nobody looks"
    reader.close()


class CancelledJustNow(asyncio.Future[None]):
    """A signal handler cancels it after it was asked."""

    def done(self) -> bool:
        was_done = super().done()
        self.cancel()
        return was_done


async def test_who_is_cancelled_while_all_are_woken_keeps_nobody_waiting() -> None:
    loop = asyncio.get_running_loop()
    condition = LoopCondition(loop)
    waiters: list[asyncio.Future[None]] = [loop.create_future(), CancelledJustNow(), loop.create_future()]
    condition._waiters.extend(waiters)  # pyright: ignore[reportPrivateUsage]
    condition.notify()
    assert [waiter.cancelled() for waiter in waiters] == [False, True, False]
    assert waiters[2].done()


async def test_whom_an_interrupt_left_waiting_the_next_notice_wakes() -> None:
    is_interrupted, moment = True, -1
    while is_interrupted:
        moment += 1
        condition = LoopCondition(asyncio.get_running_loop())
        tasks = [asyncio.create_task(condition.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        is_interrupted = interrupted_at(moment, condition.notify)
        if is_interrupted:
            condition.notify()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert all(task.done() for task in tasks), moment
