"""What has an event loop read a connection goes on whatever a callback raises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport.shm.eventfd import EventFd


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
