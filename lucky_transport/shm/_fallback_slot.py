"""The native module's slot of pictures in pure Python; see image_file.py for what its words mean."""

from __future__ import annotations

from mmap import mmap

from lucky_transport.shm._fallback_words import wake_parked, word32
from lucky_transport.shm._kernel import address_of

__all__ = ["Slot"]


class Slot:
    """The words of a slot of pictures; see image_file.py."""

    __slots__ = ("_number", "_owner", "_park", "_park_address")

    def __init__(self, mapping: mmap, number: int, owner: int, park: int) -> None:
        self._number, self._owner = word32(mapping, number), word32(mapping, owner)
        self._park, self._park_address = word32(mapping, park), address_of(mapping, park)

    def number(self) -> int:
        """Return what lies in it."""
        return self._number[0]

    def owner(self) -> int:
        """Return 0 for the engine; else it is the client's, as the picture with that number."""
        return self._owner[0]

    def take(self, number: int) -> bool:
        """Say that a picture is being written to it; False when the client owns it."""
        if self._owner[0]:
            return False
        self._number[0] = number - 1
        return True

    def hand_over(self, number: int) -> None:
        """Number the slot, whose picture is whole, and give it to the client."""
        self._number[0] = number
        self._owner[0] = number

    def give_back(self, number: int) -> None:
        """Give it to the engine, if it is still owned as that number, and wake an engine that waits for one."""
        if self._owner[0] == number:
            self._owner[0] = 0
            wake_parked(self._park, self._park_address)
