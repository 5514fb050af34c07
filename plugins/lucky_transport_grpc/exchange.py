"""How one exchange is carried to the engine and back: the contract of the two ways there are, and calls under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.transport import Frame
from lucky_transport.uninterrupted import Latch
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_grpc.metadata import Metadata


class Exchange(ABC):
    """Carries checked actions and control bytes to the engine and brings the frame back.

    It is `open` from `start` until it ended in a frame or in an error of the engine's; a wait that reaches its deadline
    leaves it open.
    """

    open: bool = False

    @abstractmethod
    def start(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        """Put the exchange on its way; returns at once."""

    @abstractmethod
    def finish(self, deadline: Deadline) -> Frame:
        """Return the frame; raises PeerTimeout (still open), PeerDied, Busy, EngineFailed, RemoteProtocolError."""

    def run(self, actions: NDArray[Any], control: NDArray[np.uint8] | None, deadline: Deadline) -> Frame:
        """`start` and `finish` in one go, where there is nothing to do in between."""
        self.start(actions, control)
        return self.finish(deadline)


class CallsUnderWay:
    """Calls, each a method, its request and metadata, that begin together, without a deadline.

    They end with their answers, with the first failure, which cancels the rest, or with the connection.

    gRPC takes the locks of its channel and its calls in Python. What a signal handler raises there leaves them held,
    and the channel serves no call any more: so a thread makes these calls that no handler interrupts.
    """

    def __init__(self, calls: Sequence[tuple[Any, Any, Metadata]]) -> None:
        self.calls = calls
        self._context = copy_context()
        self._once = deque([True])
        self._futures: list[Any] = []
        self._answered: list[Any] = []
        self._over = Latch()
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Make the calls, unless they are made; returns at once."""
        if self._once and not self._over.is_set:
            run_on_kept_thread(self._begin)

    def wait(self, deadline: Deadline) -> bool:
        """Begin, and wait for the end; False when the deadline came first (they go on)."""
        self.begin()
        return self._over.wait(deadline.remaining_s)

    def results(self) -> list[Any]:
        """Return the responses; raises gRPC's error of the call that failed first."""
        if self._error is not None:
            raise self._error
        return self._answered or [future.result() for future in self._futures]

    def end(self, error: BaseException | None, answered: Sequence[Any] = ()) -> None:
        """Note how they ended, elsewhere: the error, or the responses."""
        self._error, self._answered = error, list(answered)
        self._over.set()
        for future in self._futures:
            future.cancel()

    def _begin(self) -> None:
        try:
            self._once.pop()
        except IndexError:  # a handler raised once they had begun
            return
        self._context.run(self._make)

    def _make(self) -> None:
        try:
            for method, request, metadata in self.calls:
                self._futures.append(method.future(request, metadata=metadata))
            left = deque(self._futures)
            for future in self._futures:
                future.add_done_callback(lambda done: self._note(done, left))
        except BaseException as error:
            self.end(error)

    def _note(self, done: Any, left: deque[Any]) -> None:
        try:
            done.result()
            left.pop()
        except BaseException as error:
            if not self._over.is_set:
                self.end(error)
        else:
            if not left:
                self._over.set()
