"""Where a client finds an engine's images: `ImageReader`, with a `SharedImageLease` per message.

A lease gives its slots back once, when it is released or dropped, and only those that are still its own. The engine's
words (file, slot, length, number) are checked each time they are used; an image that changes while it is copied is
dropped. A forked child gives nothing back: the slots are its parent's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lucky_transport.errors import ClosedError, RemoteProtocolError, SegmentError, TransportError
from lucky_transport.fork import on_child
from lucky_transport.messages import ImageFrame
from lucky_transport.rpc.images import ImageRefFields
from lucky_transport.shm.slot_files.image_file import ImageFile


class ImageReader:
    """The mapped files of the segment at `base`, by number; for any thread.

    check_engine: raises PeerDied if the engine has died; the next one removes its files.
    """

    def __init__(self, base: Path, check_engine: Callable[[], object]) -> None:
        self._base, self._check_engine = base, check_engine
        self.files: dict[int, ImageFile] = {}
        self.closed = False
        on_child(self.close)  # nothing is the child's

    def claim(self, payload: bytes, places: Sequence[ImageRefFields]) -> SharedImageLease:
        """Return the message with the claim on the places that came with it."""
        return SharedImageLease(self, payload, places)

    def file(self, number: int) -> ImageFile:
        """Return a file, mapped when it is first asked for. Raises SegmentError, ClosedError, PeerDied."""
        file = self.files.get(number)
        if file is None:
            self._forget_removed()
            try:
                self.files[number] = file = self._open(number)
            except SegmentError:
                self._check_engine()
                raise
        return file

    def give_back(self, number_of_file: int, slot: int, number: int) -> None:
        """Give a slot back if it is still owned as `number`. Raises SegmentError, ClosedError."""
        file = self.files.get(number_of_file) or self._open(number_of_file)
        if slot < file.slots:
            file.words[slot].give_back(number)

    def _open(self, number: int) -> ImageFile:
        if self.closed:
            raise ClosedError("the transport is closed, and its images with it", backend="shm")
        try:
            return ImageFile.open(self._base, number)
        except OSError as error:
            raise SegmentError(
                f"image file {number} of {self._base} cannot be mapped: {error.strerror or error}",
                backend="shm",
                hint="raise the limit of open files (ulimit -n), or read fewer streams at once",
            ) from error

    def _forget_removed(self) -> None:
        """Let go of what the engine has removed: an image that grew lies in another file."""
        for number, file in tuple(self.files.items()):
            if not file.path.exists():
                self.files.pop(number, None)

    def forget(self, files: Iterable[int]) -> None:
        """Let go of these files; what is still looked at stays mapped."""
        for number in files:
            self.files.pop(number, None)

    def close(self) -> None:
        """Let go of everything and give nothing back any more; idempotent. Views stay readable."""
        self.closed = True
        self.files.clear()


class SharedImageLease:
    """A message, and the slots that came with it; see `lucky_transport.rpc.images.ImageLease`."""

    __slots__ = ("_places", "_reader", "payload")

    def __init__(self, reader: ImageReader, payload: bytes, places: Sequence[ImageRefFields]) -> None:
        self.payload = payload
        self._reader = reader
        self._places = places

    def __len__(self) -> int:
        return len(self.payload)

    def fill(self, frames: Sequence[ImageFrame], copy: bool, files: set[int] | None = None) -> bool:
        """Put the images into the frames; see `lucky_transport.rpc.images.ImageLease`."""
        places, reader = self._places, self._reader
        if len(frames) != len(places):
            raise RemoteProtocolError(
                f"a message with {len(frames)} images came with {len(places)} places",
                backend="shm",
                hint="the peer is broken; connect again",
            )
        for frame, (length, number_of_file, slot, number) in zip(frames, places):  # noqa: B905 - as many
            if not number_of_file:
                continue
            file = reader.files.get(number_of_file) or reader.file(number_of_file)
            if files is not None and number_of_file not in files:
                files.add(number_of_file)
            if slot >= file.slots or length > file.slot_bytes:
                raise _outside(file, slot, length)
            number_now = file.words[slot].number
            if number % 2 or number_now() != number:
                file.mapping.check()
                self.release()
                return False
            if not copy:
                frame.data = file.shown(slot, length)
                continue
            data = file.copied(slot, length)
            if number_now() != number:  # also where the file was truncated: all is zeros then
                file.mapping.check()
                self.release()
                return False
            frame.data = data
        if copy:
            self.release()
        return True

    def release(self) -> None:
        """Give the slots back, those that are still this claim's; idempotent, raises nothing."""
        reader = self._reader
        for _, number_of_file, slot, number in () if reader.closed else self._places:
            if number_of_file:
                with contextlib.suppress(TransportError):
                    reader.give_back(number_of_file, slot, number)
        self._places = _NONE  # at last: what interrupts it leaves the rest to the finalizer

    def keep(self) -> None:
        """Never give the slots back: the engine removes their file, and what was looked at stays as it is."""
        self._places = _NONE

    def __del__(self) -> None:
        if getattr(self, "_places", _NONE):
            self.release()


_NONE: Sequence[ImageRefFields] = ()


def _outside(file: ImageFile, slot: int, length: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"an image of {length} bytes in slot {slot} of {file.path}, which has {file.slots} of {file.slot_bytes} bytes",
        backend="shm",
        hint="the peer is broken; connect again",
    )
