"""The images of one stream, on their way from the engine to one client.

A slot that the client has not given back is never written to. Three are enough for a stream: one that is read, one on
its way and one that is drawn; an engine that draws faster than threads wake each other is at most a few milliseconds
ahead. A slot is posted once it is whole, by one thread; `take_back` and `end` may be called from any.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lucky_transport.errors import NoSpace
from lucky_transport.messages.images import ImageBytes
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.images.image_file import ImageFile
from lucky_transport.shm.timing import FRESH_NS

if TYPE_CHECKING:
    from lucky_transport.shm.images.image_store import SharedImageStore

__all__ = ["AHEAD", "SLOTS", "ImageStream"]

SLOTS = 3
#: ImageStream that a client may have as long as the oldest is fresh, and what they may take together.
AHEAD = 8
_AHEAD_BYTES = 64 << 20
_BYTES: tuple[type[Any], ...] = (bytes, bytearray, memoryview)
#: Of the numbers of images: even, 0 is none.
_LARGEST = 0xFFFFFFFE


#: As `ImageRef`, in a third of the time.
_place: Callable[[tuple[int, int, int, int]], ImageRef] = partial(cast(Any, tuple).__new__, ImageRef)


class _Slot:
    """One slot as its engine sees it. `taken`: it is being written; `view`: what was handed out for that, last."""

    __slots__ = ("file", "index", "number", "posted_ns", "slot_bytes", "taken", "view", "words")

    def __init__(self, file: ImageFile, index: int) -> None:
        self.file = file
        self.index = index
        self.slot_bytes = file.slot_bytes
        self.words = file.words[index]
        self.number = 0
        self.posted_ns = 0
        self.taken = False
        self.view: memoryview = file.bytes_of(index, 0)

    @property
    def is_free(self) -> bool:
        """True when neither side uses it."""
        return not self.taken and not self.words.owner()

    def take(self, nbytes: int, number: int) -> bool:
        """Begin to write image `number`; False when the slot is in use."""
        if self.taken or not self.words.take(number):
            return False
        self.taken = True
        self.number = number
        if len(self.view) != nbytes:
            self.view = self.file.bytes_of(self.index, nbytes)
        return True

    def post(self, nbytes: int) -> ImageRef:
        """Hand the image over to the client."""
        number = self.number
        self.words.hand_over(number)
        self.posted_ns = monotonic_ns()
        self.taken = False
        return _place((nbytes, self.file.number, self.index, number))


class ImageStream:
    """The images of one stream, or of all single answers of a client."""

    def __init__(self, store: SharedImageStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._slots: list[_Slot] = []
        self._posted: deque[_Slot] = deque()
        self._next = 0
        self._ahead = AHEAD
        self._number = 0
        self._ended = False

    def buffer(self, nbytes: int) -> memoryview:
        """Return writable memory for a image of the stream's next item; after that it may be anything.

        It is a slot, or plain memory when none is free. Raises NoSpace.
        """
        with self._lock:
            slot = self._take(nbytes)
        return memoryview(bytearray(nbytes)) if slot is None else slot.view

    def put(self, images: Sequence[ImageBytes]) -> list[ImageRef]:
        """Return where each image lies now, `file` 0 for none; slots handed out and not used are free again.

        Raises NoSpace, SegmentError when a file was truncated; the next image gets another one.
        """
        slots: list[_Slot | None] = []
        try:
            for image in images:
                slots.append(self._slot_with(image))
            self._check(slots)
        except BaseException:
            self._drop(slots)
            raise
        is_shared = self is self._store.shared
        with self._lock:
            places: list[ImageRef] = []
            for slot, image in zip(slots, images, strict=True):
                if slot is None:
                    places.append(ImageRef())
                else:
                    places.append(slot.post(_size(image)))
                    if not is_shared and not self._ended:
                        self._posted.append(slot)
            if not is_shared:
                self._drop(self._slots)
        return places

    def _check(self, slots: Iterable[_Slot | None]) -> None:
        """Raise SegmentError when the file of a slot was truncated, after it is let go of."""
        for slot in slots:
            if slot is None or not slot.file.mapping.is_lost:
                continue
            with self._lock:
                self._slots = [other for other in self._slots if other.file is not slot.file]
                self._posted = deque(other for other in self._posted if other.file is not slot.file)
            self._store.retire([slot.file], lost=True)
            raise slot.file.mapping.error()

    def has_room(self) -> bool:
        """True while the client has not so many images that the next one would be old when he sees it."""
        posted = self._posted
        while posted and posted[0].words.owner() != posted[0].number:
            posted.popleft()
        if len(posted) < SLOTS:
            return True
        oldest = posted[0]
        return (
            len(posted) < self._ahead
            and monotonic_ns() - oldest.posted_ns < FRESH_NS
            and self._has_free(oldest.slot_bytes)
        )

    def _has_free(self, nbytes: int) -> bool:
        """True when there is a slot to be ahead with; made if need be, but nothing fails for the lack of one."""
        with self._lock:
            if any(slot.slot_bytes >= nbytes and slot.is_free for slot in self._slots):
                return True
            try:
                if (len(self._slots) + SLOTS) * nbytes <= _AHEAD_BYTES and self._grow(nbytes) is not None:
                    return True
            except NoSpace:
                pass
            self._ahead = SLOTS
            return False

    def wait_for_room(self, timeout_ns: int) -> None:
        """Wait until the client gives back the image he got first, or for that long."""
        posted = self._posted
        if posted:
            slot = posted[0]
            slot.file.wait_while_owned(slot.index, slot.number, self._store.strategy, timeout_ns)

    def _slot_with(self, image: ImageBytes) -> _Slot | None:
        """Return the slot that holds the image now; None when there is none for it."""
        if not isinstance(image, _BYTES):
            raise TypeError(f"a image's data is {type(image).__name__}, expected bytes or a memoryview")
        nbytes = _size(image)
        if not nbytes:
            return None
        with self._lock:
            for slot in self._slots:
                if slot.view is image and slot.taken:
                    return slot
            slot = self._take(nbytes)
        if slot is not None:
            # NumPy copies without the GIL, so that the engine can step meanwhile.
            np.copyto(np.frombuffer(slot.view, np.uint8), np.frombuffer(image, np.uint8))
        return slot

    def take_back(self, places: Iterable[ImageRef]) -> None:
        """Free slots that are not sent to the client after all."""
        with self._lock:
            for place in places:
                for slot in self._slots:
                    if slot.file.number == place.file and slot.index == place.slot:
                        slot.words.give_back(place.number)

    def end(self, *, lost: bool) -> None:
        """The stream is over; idempotent. See `SharedImageStore.retire`."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            files = {slot.file for slot in self._slots}
            self._slots.clear()
            # The call that sent them may be held by a cycle, and these hold the memory.
            self._posted = deque()
        if files:
            self._store.retire(files, lost=lost)

    def _take(self, nbytes: int) -> _Slot | None:
        """Return a slot that was free, from a new file when need be; None when there is none. The lock is held.

        The one that is due in a stream is looked at first.
        """
        self._number = number = self._number % _LARGEST + 2
        slots = self._slots
        if slots:
            self._next = due = (self._next + 1) % len(slots)
            slot = slots[due]
            if nbytes == len(slot.view) and not slot.taken and slot.words.take(number):  # as `_Slot.take`, in place
                slot.taken = True
                slot.number = number
                return slot
            for slot in slots:
                if slot.slot_bytes >= nbytes and slot.take(nbytes, number):
                    return slot
        made = None if self._ended else self._grow(nbytes)
        if made is not None:
            made.take(nbytes, number)
        return made

    def _grow(self, nbytes: int) -> _Slot | None:
        self._retire_unused(nbytes)
        file = self._store.make(nbytes)
        if file is None:
            return None
        made = [_Slot(file, index) for index in range(file.slots)]
        self._slots = sorted((*self._slots, *made), key=lambda slot: slot.slot_bytes)
        return made[0]

    def _retire_unused(self, nbytes: int) -> None:
        """Remove files that are too small for what is drawn now and are not in use."""
        used = {slot.file for slot in self._slots if slot.slot_bytes >= nbytes or not slot.is_free}
        unused = {slot.file for slot in self._slots} - used
        if unused:
            self._slots = [slot for slot in self._slots if slot.file in used]
            self._store.retire(unused, lost=True)

    @staticmethod
    def _drop(slots: Iterable[_Slot | None]) -> None:
        for slot in slots:
            if slot is not None:
                slot.taken = False


def _size(image: ImageBytes) -> int:
    return image.nbytes if isinstance(image, memoryview) else len(image)
