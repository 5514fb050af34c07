"""Both ends of images in shared memory, and what a claim shows."""

from __future__ import annotations

from pathlib import Path

from lucky_transport.messages import ImageFrame
from lucky_transport.messages.images import ImageBytes
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files.image_reader import ImageReader, SharedImageLease
from lucky_transport.shm.slot_files.image_store import ImageStores

__all__ = ["SIZE", "Ends", "claim_of", "read"]

#: Bytes of an image.
SIZE = 100_000


def claim_of(reader: ImageReader, places: list[ImageRef]) -> SharedImageLease:
    return reader.claim(b"", list(places))


class Ends:
    """A store and a reader of the same segment."""

    def __init__(self, base: Path) -> None:
        self.folder = base.parent
        self.store = ImageStores(base).open()
        self.image_sink = self.store.open()
        self.reader = ImageReader(base)

    def put(self, *data: bytes) -> SharedImageLease:
        return claim_of(self.reader, self.image_sink.put(data))

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def read(claim: SharedImageLease, *, copy: bool = True, count: int = 1) -> list[ImageBytes] | None:
    """Return what the claim's images are, None when they are gone."""
    frames = [ImageFrame() for _ in range(count)]
    return [frame.data for frame in frames] if claim.fill(frames, copy) else None
