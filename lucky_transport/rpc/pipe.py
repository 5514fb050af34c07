"""The contract of a pipe: two queues of records, one each way, between a client and an engine.

One thread at a time pushes and one at a time pops; a side that is shared is locked around it. `interrupt` and `close`
may be called by any thread. What no honest peer can have written raises RemoteProtocolError. Every wait ends: at its
timeout, when the peer dies (PeerDied), or when this side is closed (ClosedError).
"""

from __future__ import annotations

from typing import Protocol

from lucky_transport.codec.envelope import ImageFields, ItemRun, Pieces, Popped, TooLong


class RecordWriter(Protocol):
    """What pushes records, for one thread at a time."""

    def try_push(
        self, record: bytes | bytearray | memoryview | Pieces, call: int = 0, message_bytes: int = 0, /
    ) -> bool:
        """Append the record for the peer and wake it; False, and nothing changed, when it does not fit now.

        call, message_bytes: of a long record, for a peer that leaves its message unread: see `Pipe.limit`.

        Raises SpecError for a record that never fits, RemoteProtocolError, PeerDied, ClosedError.
        """
        ...

    def push(
        self,
        kind: int,
        correlation_id: int,
        payload: bytes,
        method: int = 0,
        deadline_ns: int = 0,
        dropped: int = 0,
        image: ImageFields | None = None,
        /,
    ) -> bool:
        """Append the compact or image envelope of these fields, as `try_push` does its record.

        Raises also OverflowError or ValueError for what `lucky_transport.codec.envelope.encode_compact` refuses.
        """
        ...


class RecordReader(Protocol):
    """What pops records, for one thread at a time."""

    def ready(self) -> bool:
        """True when there is a record to pop; from any thread."""
        ...

    def pop_batch(self, limit: int, /) -> Popped | ItemRun | TooLong | None:
        """Return the oldest record from the peer, None when there is none: see `Popped`.

        Up to `limit` consecutive compact stream items of one call may come together, as an `ItemRun`. In the place of a
        message that is longer than `Pipe.limit` allows, a `TooLong` may come.

        Raises RemoteProtocolError for what no writer may produce (the ring is then left as it is), ClosedError.
        """
        ...


class Pipe(RecordWriter, RecordReader, Protocol):
    """One end."""

    @property
    def largest_record(self) -> int:
        """Bytes of the longest record that can be pushed. It may become less while there is no memory for more: a
        record that is longer by then is pushed in no way, and has to be cut.
        """
        ...

    @property
    def peer(self) -> str:
        """The other end's name, for error texts and as the caller's name: "shm client of pid 123"."""
        ...

    def limit(self, message_bytes: int) -> None:
        """Have `pop_batch` leave messages unread that are longer; without effect where it cannot tell."""
        ...

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        """Wait until there is a record to pop; False when there is none at the timeout or after `interrupt`.

        oversubscribed: other threads of this process have something to do meanwhile; the core is left to them.

        Raises PeerDied when the peer's process has ended and everything it wrote was read; ClosedError.
        """
        ...

    def wait_writable(self, length: int, timeout_ns: int) -> bool:
        """Wait until a record of `length` bytes can be pushed; False at the timeout. Raises as `wait` does."""
        ...

    def interrupt(self) -> None:
        """Make a `wait` that another thread of this process is in, or the next one, return at once."""
        ...

    def fileno(self) -> int:
        """A descriptor that an event loop can watch for `arm`, -1 where there is none."""
        ...

    def expect(self) -> bool:
        """Say that a record is expected from now on; True where it may come sooner than a sleeper wakes: `arm` then."""
        ...

    def look(self, longest_ns: int) -> None:
        """Look for the record that is expected, for so long at most; the GIL is free meanwhile. Only after `expect`, or
        after an `arm` that was True.
        """
        ...

    def arm(self, expects: bool = False) -> bool:
        """Have `fileno()` turn readable with the next record or the peer's end; True, and nothing is asked, when there
        is something to pop already or, where one `expects` it, looking for it once more pays. To be called after each
        time the descriptor was readable; not beside a `wait`.
        """
        ...

    def close(self) -> None:
        """Release everything; the peer notices. Idempotent."""
        ...
