"""One end of a peer: a way to move whole messages between two Python processes.

A request is a number, the actions and one control byte per env; an answer is the request's number, observations,
rewards and both flags: the bytes that a step of ours moves.

A peer is written as its own documentation would have it: buffers are reused, nothing is checked that the way itself
does not check, and no message is copied more often than its interface asks for. Every wait is bounded by PATIENCE_S;
the end of the other process ends it where the way tells.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from lucky_transport.errors import PeerTimeout

__all__ = ["NUMBER", "PATIENCE_S", "PREPARED", "Bytes", "Message", "Offer", "Wire", "polled"]

#: A uint8 array; Any, since type checkers do not take arrays for buffers before Python 3.12.
Bytes = Any

#: The head of every message.
NUMBER = struct.Struct("<q")
PATIENCE_S = 10.0
#: Every observation of an engine that copies its frame.
PREPARED = 0.5

_FLOAT_BYTES = 4
_FLAG_BYTES = 2  # terminated and truncated
_TRIES = 1000  # looks between two at the clock


class Wire(Protocol):
    """One end. Messages are contiguous uint8 arrays; those that `blank` and `receive` return are valid until the next
    call of the same name.
    """

    @classmethod
    def offer(cls, directory: Path, largest: int) -> Offer:
        """Return the first end and what the second needs; `directory` is the pair's own, `largest` in bytes."""
        ...

    @classmethod
    def accept(cls, address: str, largest: int) -> Self:
        """Return the second end."""
        ...

    def blank(self, nbytes: int) -> Bytes:
        """Return where the next message is written; its content is undefined."""
        ...

    def send(self) -> None:
        """Send what `blank` returned."""
        ...

    def receive(self, nbytes: int) -> Bytes:
        """Return the next message. Raises PeerTimeout, and EOFError or OSError when the other end is gone."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A first end, where the second one finds it, and the descriptors that its process must inherit."""

    wire: Wire
    address: str
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """What travels in one cell. `copies`: the engine copies a prepared frame for each answer."""

    num_envs: int
    obs_size: int
    act_size: int
    copies: bool

    @property
    def action_bytes(self) -> int:
        """The float32 actions of all envs."""
        return self.num_envs * self.act_size * _FLOAT_BYTES

    @property
    def request_bytes(self) -> int:
        """Number, actions, control bytes."""
        return NUMBER.size + self.action_bytes + self.num_envs

    @property
    def observation_bytes(self) -> int:
        """The float32 observations of all envs."""
        return self.num_envs * self.obs_size * _FLOAT_BYTES

    @property
    def answer_bytes(self) -> int:
        """Number, observations, rewards, flags."""
        return NUMBER.size + self.observation_bytes + self.num_envs * (_FLOAT_BYTES + _FLAG_BYTES)

    def prepared(self) -> Bytes:
        """Return an answer without its number, every observation PREPARED and all else zero."""
        frame = np.zeros(self.answer_bytes - NUMBER.size, np.uint8)
        frame[: self.observation_bytes].view(np.float32)[:] = PREPARED
        return frame


def polled(look: Callable[[], Any], what: str) -> Any:
    """Call `look` until it returns something other than None and return that; burns a core meanwhile.

    Raises PeerTimeout after PATIENCE_S.
    """
    end = time.monotonic() + PATIENCE_S
    while True:
        for _ in range(_TRIES):
            found = look()
            if found is not None:
                return found
        if time.monotonic() > end:
            raise PeerTimeout(f"{what}: nothing came within {PATIENCE_S:g} s", backend="bench")
