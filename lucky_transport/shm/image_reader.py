"""Where a client finds an engine's pictures: `ImageReader`, with a `Claim` per message.

Rule 1: a claim gives its slots back once: when it is released, or dropped. Only slots that are still its own.
Rule 2: the engine's words are checked each time they are used: file, slot, length and number; a picture that changed
        while it was copied is no picture.
Rule 3: in a forked child nothing is given back: the slots are the parent's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lucky_transport.codec.envelope import ImagePlace
from lucky_transport.errors import ClosedError, RemoteProtocolError, TransportError
from lucky_transport.messages.media import ImageFrame
from lucky_transport.shm.gate import close_in_children
from lucky_transport.shm.image_file import ImageFile

__all__ = ["Claim", "ImageReader"]


class ImageReader:
    """The mapped files of the segment at `base`; for any thread."""

    def __init__(self, base: Path, *, native: bool = True) -> None:
        self._base = base
        self._native = native
        self._files: dict[int, ImageFile] = {}
        self.closed = False
        close_in_children(self)

    def claim(self, places: list[ImagePlace]) -> Claim:
        """Return the claim on the places that came with a message."""
        return Claim(self, places)

    def file(self, number: int) -> ImageFile:
        """Return a file, mapped when it is first asked for. Raises SegmentError, ClosedError."""
        file = self._files.get(number)
        if file is None:
            if self.closed:
                raise ClosedError("the transport is closed, and its pictures with it", backend="shm")
            self._files[number] = file = ImageFile.open(self._base, number, native=self._native)
        return file

    def forget(self, files: Iterable[int]) -> None:
        """Let go of these files; what is still looked at stays mapped."""
        for number in files:
            self._files.pop(number, None)

    def close(self) -> None:
        """Let go of everything and give nothing back any more; idempotent. Views stay readable."""
        self.closed = True
        self._files.clear()

    def close_after_fork(self) -> None:
        """In a forked child: nothing is ours."""
        self.close()


class Claim:
    """The slots that came with one message."""

    __slots__ = ("_places", "_reader")

    def __init__(self, reader: ImageReader, places: list[ImagePlace]) -> None:
        self._reader = reader
        self._places: list[ImagePlace] | None = places

    @property
    def places(self) -> Sequence[ImagePlace]:
        """Where the pictures lie, `file` 0 for one in its message; none after `release`."""
        return self._places or ()

    def fill(self, frames: Sequence[ImageFrame], copy: bool) -> bool:
        """Put the pictures into the frames; see `lucky_transport.calls.images.Claim`."""
        places = self._places or ()
        if len(frames) != len(places):
            raise RemoteProtocolError(
                f"a message with {len(frames)} pictures came with {len(places)} places",
                backend="shm",
                hint="the peer is broken; connect again",
            )
        for frame, place in zip(frames, places, strict=True):
            if place.file:
                data = self._look(place, copy)
                if data is None:
                    self.release()
                    return False
                frame.data = data
        if copy:
            self.release()
        return True

    def _look(self, place: ImagePlace, copy: bool) -> bytes | memoryview | None:
        """Return the picture, None when something else lies there."""
        file = self._reader.file(place.file)
        slot, number = place.slot, place.number
        if slot >= file.slots or place.length > file.slot_bytes:
            raise RemoteProtocolError(
                f"a picture of {place.length} bytes in slot {slot} of {file.path}, which has {file.slots} of "
                f"{file.slot_bytes} bytes",
                backend="shm",
                hint="the peer is broken; connect again",
            )
        number_now = file.words[slot].number
        if number % 2 or number_now() != number:
            return None
        if not copy:
            return file.shown(slot, place.length)
        data = file.copied(slot, place.length)
        return data if number_now() == number else None

    def release(self) -> None:
        """Give the slots back, those that are still this claim's; idempotent, raises nothing."""
        places, self._places = self._places, None
        reader = self._reader
        if not places or reader.closed:
            return
        for place in places:
            if place.file:
                try:
                    words = reader.file(place.file).words
                except TransportError:
                    continue
                if place.slot < len(words):
                    words[place.slot].give_back(place.number)

    def keep(self) -> None:
        """Never give the slots back: the engine removes their file, and what was looked at stays as it is."""
        self._places = None

    def __del__(self) -> None:
        if self._places:
            self.release()
