"""Where an engine puts its images for one client: `SharedImageStore`, with an `ImageStream` per stream.

    images = store.open()
    buffer = images.buffer(nbytes)            # an engine may draw into it
    references = images.put([buffer])         # copies what is not in such a buffer; the client owns them from now on
    images.end(lost=False)

A stream has its own files. They are removed at once when its client gives the stream up, else when the client has given
back all slots or is gone. Nothing here waits: a client that keeps its slots gets more of them up to a limit, then `put`
gives no reference.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from lucky_transport.shm.images.image_file import ImageFile, remove_images
from lucky_transport.shm.images.image_stream import SLOTS, ImageStream

__all__ = ["MAX_FILES", "ImageStores", "SharedImageStore"]

#: Files that one client may have at once.
MAX_FILES = 64


class ImageStores:
    """The stores of all clients of the segment at `base`."""

    def __init__(self, base: Path, *, strategy: int = 1, native: bool = True) -> None:
        self._base = base
        self._strategy = strategy
        self._native = native
        self._numbers = itertools.count(1)

    def open(self) -> SharedImageStore:
        """Return the store of a new client."""
        return SharedImageStore(self._make, self._strategy)

    def close(self) -> None:
        """Remove whatever is left."""
        remove_images(self._base)

    def _make(self, least_bytes: int) -> ImageFile:
        while True:
            try:
                return ImageFile.create(self._base, next(self._numbers), SLOTS, least_bytes, native=self._native)
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
        """Remove these files: at once when `lost`, else when their client has given everything back."""
        with self._lock:
            for file in files:
                if lost:
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
