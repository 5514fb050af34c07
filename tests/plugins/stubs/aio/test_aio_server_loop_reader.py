"""An event loop goes on serving whatever a signal handler raises in it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from lucky_transport.shm.eventfd import EventFd
from lucky_transport_stubs.aio.server_loop_reader import ServerLoopReader


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
