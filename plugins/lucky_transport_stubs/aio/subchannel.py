"""A shared connection of an event loop's channels: the loop itself connects, a step at a time, and watches one
descriptor then: there is no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport.shm.listener.connecting import Wait
from lucky_transport_stubs.client.connecting import connection_steps
from lucky_transport_stubs.client.subchannel import Subchannel


class LoopSubchannel(Subchannel):
    """It begins to connect with the loop's next round.

    A channel leaves on the thread of the loop, or on any while that does not run.
    """

    def __init__(
        self, key: Hashable, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, max_receive_bytes: int
    ) -> None:
        super().__init__(key)
        self._loop = loop
        self._steps = connection_steps(endpoint, max_receive_bytes)
        self._stop_waiting: Callable[[], object] = loop.call_soon(self._go_on, None).cancel
        self._reader: LoopReader | None = None

    def expect(self) -> None:
        """Something was sent, which the server may answer at once."""
        if self._reader is not None:
            self._reader.expect()

    def _go_on(self, is_readable: bool | None) -> None:
        """Take the next step of the attempt. is_readable: None for the first one."""
        if self.is_over:  # in a forked child, where the loop's table is the parent's too
            return
        self._stop_waiting()
        try:
            self._step(is_readable)
        except TransportError as error:
            self._failed(error)
        except BaseException:  # a signal handler's: nothing comes of this attempt any more
            self._failed(NotReachable("a signal handler interrupted the attempt to connect", backend="shm"))
            raise

    def _step(self, is_readable: bool | None) -> None:
        try:
            wait = self._steps.send(is_readable)
        except StopIteration as end:
            self._connected(end.value[0])
            return
        self._stop_waiting = _when_over(self._loop, wait, self._go_on)
        if self.is_over:  # a channel was dropped in the middle of the step
            self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        if self.calls is None:
            self._stop_waiting()
            with contextlib.suppress(ValueError):  # it is in the middle of a step, after which it is given up
                self._steps.close()

    def _connected(self, calls: ClientCalls) -> None:
        with contextlib.ExitStack() as undo:
            undo.callback(calls.close)
            self._reader = LoopReader(calls, self._loop, self._broken)
            self.calls = calls  # not before: a channel may be dropped, and so leave, in the middle of anything
            undo.pop_all()
        if self.is_over:
            calls.close()
        for user in self.users:
            self._loop.call_soon(user.connected, self)  # not here: what one of them raises must not keep the others

    def _failed(self, error: TransportError) -> None:
        self._end()
        self._let_go()
        for user in self.users:
            self._loop.call_soon(user.failed, self, error)


def _when_over(loop: asyncio.AbstractEventLoop, wait: Wait, then: Callable[[bool], None]) -> Callable[[], object]:
    """Have the loop call `then(is_readable)` when the wait is over; return what takes that back."""
    timer = loop.call_later(wait.seconds, then, False)
    if wait.connection is None:
        return timer.cancel
    fd = wait.connection.fileno()
    loop.add_reader(fd, then, True)

    def stop() -> None:
        timer.cancel()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.remove_reader(fd)

    return stop
