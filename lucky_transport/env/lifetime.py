"""What an env owns and ends with it: the transport, and the engine process it was started with.

Rule 1: everything ends exactly once, at `close`, at garbage collection or when the program ends.
Rule 2: a forked child ends nothing; the engine and the connection are its parent's.
"""

from __future__ import annotations

import os
import time
from typing import Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.transport import Transport

__all__ = ["Lifetime", "Owner"]

_REAPING_S = 0.05


class Owner(Protocol):
    """Something that ends with the env, for instance the engine's process."""

    def stop(self) -> object:
        """End it; idempotent."""
        ...


class Lifetime:
    """Holds a transport and its owner until `end`."""

    def __init__(self, transport: Transport, owner: Owner | None) -> None:
        self._transport = transport
        self._owner = owner
        self._pid = os.getpid()

    def end(self) -> None:
        """Close the transport, then stop the owner even if closing failed."""
        if os.getpid() != self._pid:
            return
        try:
            self._transport.close()
        finally:
            if self._owner is not None:
                self._owner.stop()

    def last_words(self) -> str:
        """Return how our own engine process ended and what it wrote last; "" when it lives or is not ours.

        A connection breaks a moment before its process can be waited for, hence the short wait.
        """
        obituary = getattr(self._owner, "obituary", None)
        if obituary is None:
            return ""
        deadline = Deadline(_REAPING_S)
        while not (words := obituary()) and not deadline.expired:
            time.sleep(_REAPING_S / 10)
        return words
