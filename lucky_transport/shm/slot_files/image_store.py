"""Where an engine puts its images for one client: `SharedImageStore`, with an `ImageStream` per stream.

    images = store.open()
    buffer = images.buffer(nbytes)            # an engine may draw into it
    references = images.put([buffer])         # copies what is not in such a buffer; the client owns them from now on
    images.end(lost=False)

A stream has its own files. They are removed at once when its client gives the stream up, else when the client has given
back all slots or is gone. A slot that the client has not given back is never written to. Three are enough for a stream:
one that is read, one on its way and one that is drawn. Nothing here waits but `wait_for_room`: a client that keeps its
slots gets more of them up to a limit, then `put` gives no reference. A slot is posted once it is whole, by one thread;
`take_back` and `end` may be called from any.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import NoSpace
from lucky_transport.messages.images import ImageBytes
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files.image_file import ImageFile, WriterSlot
from lucky_transport.shm.timing import FRESH_NS

#: Files that one client may have at once.
MAX_FILES = 64
#: Slots of a file.
SLOTS = 3
#: Images of a stream that a client may have as long as the oldest is fresh, and the bytes they may take together.
AHEAD = 8
_AHEAD_BYTES = 64 << 20
_BYTES: tuple[type[Any], ...] = (bytes, bytearray, memoryview)
#: Of the numbers of images: even, 0 is none.
_LARGEST = 0xFFFFFFFE


class ImageStream:
    """The images of one stream, or of all single answers of a client."""

    def __init__(self, store: SharedImageStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._slots: list[WriterSlot] = []
        self._posted: deque[WriterSlot] = deque()
        self._ahead = AHEAD
        self._number = 0
        self._ended = False

    def buffer(self, nbytes: int) -> memoryview:
        """Return writable memory for an image of the stream's next item; after that it may be anything.

        It is a slot, or plain memory when none is free. Raises NoSpace.
        """
        with self._lock:
            slot = self._take(nbytes)
        return memoryview(bytearray(nbytes)) if slot is None else slot.view

    def put(self, images: Sequence[ImageBytes]) -> list[ImageRef]:
        """Return where each image lies now, `file` 0 for none; slots handed out and not used are free again.

        Raises NoSpace, SegmentError when a file was truncated; the next image gets another one.
        """
        slots: list[WriterSlot | None] = []
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
                    places.append(slot.post(_size(image), monotonic_ns()))
                    if not is_shared and not self._ended:
                        self._posted.append(slot)
            if not is_shared:
                self._drop(self._slots)
        return places

    def _check(self, slots: Iterable[WriterSlot | None]) -> None:
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
        """True while the client has so few images that the next one is read soon."""
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
        """Wait until the client gives back the oldest image, or for that long."""
        posted = self._posted
        if posted:
            slot = posted[0]
            slot.file.wait_while_owned(slot.index, slot.number, self._store.strategy, timeout_ns)

    def _slot_with(self, image: ImageBytes) -> WriterSlot | None:
        """Return the slot that holds the image now; None when there is none for it."""
        if not isinstance(image, _BYTES):
            raise TypeError(f"an image's data is {type(image).__name__}, expected bytes or a memoryview")
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

    def _take(self, nbytes: int) -> WriterSlot | None:
        """Return a slot that was free, from a new file when need be; None when there is none. The lock is held."""
        self._number = number = self._number % _LARGEST + 2
        for slot in self._slots:
            if slot.slot_bytes >= nbytes and slot.take(nbytes, number):
                return slot
        made = self._grow(nbytes)
        if made is not None:
            made.take(nbytes, number)
        return made

    def _grow(self, nbytes: int) -> WriterSlot | None:
        if self._ended:
            return None
        self._retire_unused(nbytes)
        file = self._store.make(nbytes)
        if file is None:
            return None
        made = [WriterSlot(file, index) for index in range(file.slots)]
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
    def _drop(slots: Iterable[WriterSlot | None]) -> None:
        for slot in slots:
            if slot is not None:
                slot.taken = False


def _size(image: ImageBytes) -> int:
    return image.nbytes if isinstance(image, memoryview) else len(image)


class ImageStores:
    """The stores of all clients of the segment at `base`."""

    def __init__(self, base: Path, *, strategy: int = 1) -> None:
        self._base = base
        self._strategy = strategy
        self._numbers = itertools.count(1)

    def open(self) -> SharedImageStore:
        """Return the store of a new client."""
        return SharedImageStore(self._make, self._strategy)

    def _make(self, least_bytes: int) -> ImageFile:
        while True:
            try:
                return ImageFile.create(self._base, next(self._numbers), SLOTS, least_bytes)
            except FileExistsError:
                continue  # left by an engine that was killed


class SharedImageStore:
    """The files of one client. `shared` holds the images of single answers."""

    def __init__(self, make: Callable[[int], ImageFile], strategy: int) -> None:
        self.strategy = strategy
        self._make = make
        self._lock = threading.Lock()
        self._files: set[ImageFile] = set()
        self._retired: list[ImageFile] = []
        self._closed = False
        self.shared = ImageStream(self)

    def open(self) -> ImageStream:
        """Return the images of a new stream."""
        return ImageStream(self)

    def close(self) -> None:
        """The client is gone: remove every file; idempotent, from any thread."""
        with self._lock:
            self._closed = True
            for file in self._files:
                file.unlink()
            self._files.clear()
            self._retired.clear()
        self.shared.end(lost=True)  # it holds this store, and its slots hold the memory

    def make(self, least_bytes: int) -> ImageFile | None:
        """Return a new file, None when there are too many or the client is gone. Raises NoSpace."""
        with self._lock:
            self._sweep()
            if self._closed or len(self._files) >= MAX_FILES:
                return None
            file = self._make(least_bytes)
            self._files.add(file)
            return file

    def retire(self, files: Iterable[ImageFile], *, lost: bool) -> None:
        """Remove these files: at once when `lost`, else when their client has given everything back or is gone."""
        with self._lock:
            for file in files:
                if lost or self._closed:
                    self._remove(file)
                else:
                    self._retired.append(file)
            self._sweep()

    def _sweep(self) -> None:
        held: list[ImageFile] = []
        for file in self._retired:
            if any(words.owner() for words in file.words):
                held.append(file)
            else:
                self._remove(file)
        self._retired = held

    def _remove(self, file: ImageFile) -> None:
        if file in self._files:
            self._files.discard(file)
            file.unlink()
