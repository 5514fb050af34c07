"""How one exchange is carried to the engine and back: the contract of the two ways there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.transport import Frame


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
