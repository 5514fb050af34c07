"""Images that travel beside their message: the envelope says where they lie, the message has none of their bytes.

    engine   store.open() -> ImageSink per stream; `put` gives each image a place
    client   source.claim(payload, places) -> ImageLease; `fill` puts the images into the decoded message

The plugin that makes the pipe brings the memory, as a store or a source; without one images stay in their messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lucky_transport.errors import RemoteProtocolError

if TYPE_CHECKING:
    from lucky_transport.messages import ImageFrame
    from lucky_transport.messages.images import ImageBytes


class ImageRef(NamedTuple):
    """Where an image lies; a tuple of the fields of `ImagePlace`, because a message makes many of them."""

    length: int = 0
    file: int = 0
    slot: int = 0
    number: int = 0


#: The same, as it is taken from a ring.
ImageRefFields = tuple[int, int, int, int]


class ImageSink(Protocol):
    """Where the engine puts the images of one stream, or of all single answers of a client; for any thread."""

    def buffer(self, nbytes: int) -> memoryview:
        """Return writable memory for an image of the next item; given to `put` itself, nothing is copied."""
        ...

    def put(self, images: Sequence[ImageBytes]) -> list[ImageRef]:
        """Give each image a place; one whose `file` is 0 found none and has to stay in its message.

        From now on the client owns the places. Raises NoSpace.
        """
        ...

    def has_room(self) -> bool:
        """True while the client holds so few images that the next one is read soon."""
        ...

    def wait_for_room(self, timeout_ns: int) -> None:
        """Wait until the client releases an image, `timeout_ns` at most; for the thread that sends the stream."""
        ...

    def take_back(self, places: Iterable[ImageRef]) -> None:
        """Free places that are not sent to the client after all."""
        ...

    def end(self, *, lost: bool) -> None:
        """End the stream and free its images: at once if the client is `lost`, else as soon as each was read."""
        ...


class ImageStore(Protocol):
    """All images for one client. `shared`: those of single answers."""

    @property
    def shared(self) -> ImageSink: ...

    def open(self) -> ImageSink:
        """Return where a new stream puts its images."""
        ...

    def close(self) -> None:
        """The client is gone; idempotent."""
        ...


class ImageLease(Protocol):
    """A received message whose images lie elsewhere: its bytes, `payload`, and a claim on the places.

    Its length is that of the payload. A lease that is dropped, read or not, releases its places.
    """

    payload: bytes

    def __len__(self) -> int: ...

    def fill(self, frames: Sequence[ImageFrame], copy: bool, files: set[int] | None = None) -> bool:
        """Put the images into these frames: bytes, or with `copy` False read-only views until `release`. The numbers
        of the files that they were found in are added to `files`.

        False when the engine has written something else there since. Raises RemoteProtocolError, SegmentError.
        """
        ...

    def release(self) -> None:
        """Release the places; idempotent."""
        ...

    def keep(self) -> None:
        """Never release them: the call was cancelled, and the engine frees them all."""
        ...


#: What came for a call: the bytes of a message, or a claim on the places of its images as well.
Payload = bytes | ImageLease


class ImageSource(Protocol):
    """Where the client finds an engine's images."""

    def claim(self, payload: bytes, places: Sequence[ImageRefFields]) -> ImageLease:
        """Return the message with the claim on the places that came with it."""
        ...

    def forget(self, files: Iterable[int]) -> None:
        """Close these files: no image in them is needed any more."""
        ...

    def close(self) -> None:
        """Release everything; idempotent."""
        ...


def no_source(payload: bytes, places: Sequence[ImageRefFields]) -> ImageLease:
    """Stand in for `ImageSource.claim` where there is none. Raises RemoteProtocolError."""
    raise RemoteProtocolError(
        f"a message whose {len(places)} images lie in shared memory, over a connection that has none",
        hint="the peer is broken; connect again",
    )
