"""Pictures that travel beside their message: the envelope says where they lie, the message has none of their bytes.

    engine   store.open() -> Pictures per stream; `put` gives each picture a place
    client   source.claim(places) -> Claim; `fill` puts them into the decoded message

Rule 1: this file knows no memory; who made the pipe brings a store or a source. Without one pictures stay in messages.
Rule 2: a claim that is dropped, read or not, gives its places back; so does everything that ends a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lucky_transport.codec.envelope import ImagePlace
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.images import Picture, frames_of
from lucky_transport.messages.media import ImageFrame

__all__ = ["Claim", "ImageSource", "ImageStore", "Pictured", "Pictures", "fill", "pictured"]


class Pictures(Protocol):
    """Where the engine puts the pictures of one stream, or of all single answers of a client; for any thread."""

    def buffer(self, nbytes: int) -> memoryview:
        """Return writable memory for a picture of the next item; given to `put` itself, nothing is copied."""
        ...

    def put(self, pictures: Sequence[Picture]) -> list[ImagePlace]:
        """Give each picture a place; one whose `file` is 0 found none and has to stay in its message.

        From now on the client owns the places. Raises NoSpace.
        """
        ...

    def put_drawn(self, picture: Picture) -> ImagePlace | None:
        """As `put`, of a single picture drawn into the only buffer handed out for it; None for any other picture."""
        ...

    def has_room(self) -> bool:
        """True while the client has not so many pictures that the next one would be old when he sees it."""
        ...

    def wait_for_room(self, timeout_ns: int) -> None:
        """Wait until the client gives one back, or for that long. Only for the thread that sends the stream."""
        ...

    def take_back(self, places: Iterable[ImagePlace]) -> None:
        """Free places of which the client is not told after all."""
        ...

    def end(self, *, lost: bool) -> None:
        """The stream is over: free everything, of what its client may still read (not `lost`) as soon as he has."""
        ...


class ImageStore(Protocol):
    """All pictures for one client. `shared`: those of single answers."""

    @property
    def shared(self) -> Pictures: ...

    def open(self) -> Pictures:
        """Return where a new stream puts its pictures."""
        ...

    def close(self) -> None:
        """The client is gone; idempotent."""
        ...


class Claim(Protocol):
    """The places that came with one message; none after `release`."""

    @property
    def places(self) -> Sequence[ImagePlace]: ...

    def fill(self, frames: Sequence[ImageFrame], copy: bool) -> bool:
        """Put the pictures into these frames: bytes, or with `copy` False read-only views until `release`.

        False when the engine has written something else there since. Raises RemoteProtocolError, SegmentError.
        """
        ...

    def release(self) -> None:
        """Give the places back; idempotent."""
        ...

    def keep(self) -> None:
        """Never give them back, because the call is given up and the engine frees them all."""
        ...


class ImageSource(Protocol):
    """Where the client finds an engine's pictures."""

    def claim(self, places: list[ImagePlace]) -> Claim:
        """Return the claim on the places that came with a message."""
        ...

    def forget(self, files: Iterable[int]) -> None:
        """These files are not needed any more."""
        ...

    def close(self) -> None:
        """Let go of everything; idempotent."""
        ...


class Pictured(bytes):
    """The payload of a message whose pictures lie elsewhere."""

    claim: Claim


def fill(message: object, payload: bytes, copy: bool = True) -> bool:
    """Put the pictures that came with `payload` into the message decoded from it; False when they are gone.

    With `copy` they are released, else `payload.claim` holds them. Raises as `Claim.fill`.
    """
    return not isinstance(payload, Pictured) or payload.claim.fill(frames_of(message), copy)


def pictured(payload: bytes, places: list[ImagePlace], source: ImageSource | None) -> Pictured:
    """Return the payload with its claim. Raises RemoteProtocolError when this side reads no such pictures."""
    if source is None:
        raise RemoteProtocolError(
            f"a message whose {len(places)} pictures lie in shared memory, over a connection that has none",
            hint="the peer is broken; connect again",
        )
    made = Pictured(payload)
    made.claim = source.claim(places)
    return made
