"""The native module: ordered words, waits, step channels, ring ends, image slots, and what `VectorEnv.step` returns.

Offsets count bytes from the start of the mapping and are checked once, when an object is made: ValueError for one that
does not lie in it. A method of an object that was never initialised raises TypeError. Waits release the GIL and look at
Python's signals.
"""

from collections.abc import Callable, Mapping
from typing import Any

from _typeshed import ReadableBuffer, WriteableBuffer

from lucky_transport.codec.envelope import ImageFields, ItemRun, Pieces, Popped, TooLong
from lucky_transport.env.results import StepResult
from lucky_transport.errors import MissingExtra
from lucky_transport.shm.segment.channel import ActionFormat, ChannelOffsets
from lucky_transport.transport import Frame

VERSION: int

def problem() -> MissingExtra | None: ...

class ClientChannel:
    """The client's end of the step counters.

    strategy: how it waits, see wait.py. peer: PEER_WAKES where the engine wakes us, else 0.
    """

    def __init__(
        self,
        mapping: WriteableBuffer,
        offsets: ChannelOffsets,
        actions: ActionFormat,
        /,
        strategy: int,
        peer: int,
    ) -> None: ...
    @property
    def seq(self) -> int:
        """Exchanges sent."""
    @property
    def received(self) -> int:
        """Number of the last exchange that has ended; below `seq` while a frame is outstanding."""
    @property
    def frames(self) -> int:
        """Frames received."""
    @property
    def out_of_bounds(self) -> int:
        """Action values sent that lay outside the bounds."""
    def send(self, actions: object, control: object, /) -> int:
        """Publish actions and control (None: every env steps): Result.FRAME, or why nothing was published."""
    def recv(self, timeout_ns: int, /) -> int:
        """Wait for the frame of the last send: a Result."""
    def step(self, actions: object, control: object, timeout_ns: int, /) -> int:
        """`send` and `recv` in one call."""
    def fuse(
        self,
        frames: tuple[Any, ...],
        slow: Callable[[int, Any, Any, Any], object],
        slice_ns: int,
        /,
    ) -> None:
        """Make `exchange` number n return `frames[n % len(frames)]`, with its `seq` and `any_ended` set, and leave what
        is no plain, successful exchange to `slow`.
        """
    def unfuse(self) -> None:
        """Leave every exchange to `slow` from now on."""
    def exchange(self, actions: object, control: object = None, deadline: object = None) -> Any:
        """Return the fused frame, numbered, or what `slow(result, actions, control, deadline)` returns."""

class EngineChannel:
    """The engine's end of the step counters; it waits for actions and for records in the command ring."""

    def __init__(self, mapping: WriteableBuffer, offsets: ChannelOffsets, /, strategy: int) -> None: ...
    @property
    def seq(self) -> int:
        """Frames written."""
    def next(self, timeout_ns: int, /) -> int:
        """Wait for actions or commands: Result.HAS_* bits, or a negative Result; TIMED_OUT also after `interrupt`."""
    def publish(self, status: int, /) -> None:
        """Announce the frame; with status != 0, that there is none."""
    def serve(
        self,
        step: Callable[[None], object],
        acquire: Callable[[], object],
        release: Callable[[], object],
        timeout_ns: int,
        /,
    ) -> int:
        """Answer plain actions by `step(None)` under the lock until something else is found, and return that.

        The lock is held from one step to the next while no other thread of this process can run between them, and free
        during every longer wait.
        """
    def interrupt(self) -> None:
        """Make `next` return at once, and `serve` after its present step."""
    def commands_read(self, position: int, /) -> None:
        """Commands up to this ring position are read."""
    def set_peer(self, peer: int, lock_fd: int = -1, lock_byte: int = 0, /) -> None:
        """Wait for this client from now on: PEER_WAKES where it wakes us, else 0.

        lock_fd, lock_byte: the lock that it holds while it lives; a wait times out once it does not.
        """
    def resync(self) -> None:
        """Drop an exchange that a dead client left behind."""

class RingWriter:
    """The writing end; `try_push` and `push` as of `lucky_transport.rpc.pipe.RecordWriter`.

    park: byte of the reader's park word, -1 without one. socket: notified instead of the futex, -1 without.
    strategy: how it waits for free space, see wait.py. peer: PEER_WAKES where the reader wakes us, else 0.
    empty: the ring is made empty, which no other end may be using.
    arena: first byte of the arena beside the ring, of `arena_bytes`, 0 without one; see shm/arena.py.
    backed: data bytes of the ring that have memory, all of them by default; the others get it before they are written.
    """

    def __init__(
        self,
        memory: WriteableBuffer,
        offset: int,
        size: int,
        /,
        park: int = -1,
        socket: int = -1,
        strategy: int = 1,
        peer: int = 1,
        empty: bool = False,
        arena: int = 0,
        arena_bytes: int = 0,
        backed: int = ...,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Data bytes of the ring."""
    @property
    def position(self) -> int:
        """How far this side has written: bytes modulo 2**32."""
    @property
    def free(self) -> int:
        """Bytes not in use now. Raises RemoteProtocolError for an impossible reader's position."""
    @property
    def largest(self) -> int:
        """Bytes of the longest record that it takes: fewer for a while, where there is no memory for more."""
    @property
    def backed(self) -> int:
        """Bytes of the arena that have memory, because records took them."""
    def try_push(
        self, record: bytes | bytearray | memoryview | Pieces, call: int = 0, message_bytes: int = 0, /
    ) -> bool: ...
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
    ) -> bool: ...
    def woke_reader(self) -> bool:
        """True, once, when the reader was parked as the last record came: no answer can come soon."""
    def wait_writable(self, length: int, timeout_ns: int) -> int:
        """Wait until a record of `length` bytes fits: 1, or Result.TIMED_OUT (also after `stop`).

        Raises as `try_push`.
        """
    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse every record from now on, with the error that `why()` returns."""
    def stop(self) -> None:
        """End `wait_writable`, now and from now on, and notify no socket any more."""

class RingReader:
    """The reading end; `pop_batch` as of `lucky_transport.rpc.pipe.RecordReader`.

    park: byte of this side's own park word, -1 without one. socket: unused here, the caller sleeps on it.
    strategy: how it waits for a record, see wait.py. peer: PEER_WAKES where the writer wakes us, else 0.
    empty: the ring is made empty, which no other end may be using.
    arena: first byte of the arena beside the ring, of `arena_bytes`, 0 without one; see shm/arena.py.
    backed: unused here.
    """

    def __init__(
        self,
        memory: WriteableBuffer,
        offset: int,
        size: int,
        /,
        park: int = -1,
        socket: int = -1,
        strategy: int = 1,
        peer: int = 1,
        empty: bool = False,
        arena: int = 0,
        arena_bytes: int = 0,
        backed: int = ...,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Data bytes of the ring."""
    @property
    def position(self) -> int:
        """How far this side has read: bytes modulo 2**32."""
    @property
    def pending(self) -> int:
        """Bytes written and not read. Raises RemoteProtocolError for an impossible writer's position."""
    def try_pop(self) -> bytes | None:
        """Return a copy of the oldest record and free its place, None when there is none.

        Raises RemoteProtocolError for what no writer may produce; the ring is then left as it is.
        """
    def pop_batch(self, limit: int, /) -> Popped | ItemRun | TooLong | None: ...
    def limit(self, message_bytes: int, /) -> None:
        """Have `pop_batch` leave longer messages in the arena, and say so in their place."""
    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse to pop from now on, with the error that `why()` returns."""
    def ready(self) -> bool:
        """True when something was written and not popped, be it whole or not."""
    def wait(self, timeout_ns: int, oversubscribed: bool = False, skip_spin: bool = False) -> int:
        """Wait for a record, parked on the futex: 1, 0 after `interrupt`, or Result.TIMED_OUT.

        oversubscribed: threads of this process want the core too. skip_spin: park at once, for nothing can come soon.
        """
    def interrupt(self) -> None:
        """Make the present `wait`, or the next one, return."""
    def arm(self) -> bool:
        """Have the writer wake this side with its next record; True, and nothing asked, when there is one already."""
    def disarm(self) -> None:
        """Withdraw what `arm` asked for."""
    @property
    def spin_ns(self) -> int:
        """For how long its next `wait` looks before it parks: see `SpinBudget`."""

class ImageSlot:
    """The two words of a slot of images; image_file.py says what they mean.

    number, owner: their bytes. park: byte of the park word of an engine that waits for a slot.
    """

    def __init__(self, mapping: WriteableBuffer, /, number: int, owner: int, park: int) -> None: ...
    def number(self) -> int:
        """Return the number of the image that lies in it."""
    def owner(self) -> int:
        """Return 0 for the engine; else it is the client's, as the image with that number."""
    def take(self, number: int, /) -> bool:
        """Say that image `number` is being written to it; False when the client owns it."""
    def hand_over(self, number: int, /) -> None:
        """Number the slot, whose image is whole, and give it to the client."""
    def give_back(self, number: int, /) -> None:
        """Give it to the engine, if it is still owned as that number, and wake an engine that waits for one."""

class SpinBudget:
    """For how long a waiting side looks before it parks, as its last waits taught it.

    Being woken costs either side 100 us and more, much of it in CPU. So looking for 800 us pays where the last waits
    were over within that, and looking at all does not pay where they were not; in between it is 150 us.
    """

    def __init__(self, strategy: int, /) -> None: ...
    @property
    def ns(self) -> int:
        """The budget of the next wait; 0: it parks at once."""
    def learn(self, waited_ns: int, /) -> None:
        """A wait was over after so long: something came, or its time had passed."""

def spin(readers: tuple[RingReader, ...], strategy: int, longest_ns: int, oversubscribed: bool = False, /) -> bool:
    """Look at the readers for that long, at most 10 ms, with `block` once; True when one has something to pop.

    oversubscribed: threads of this process want the core too, so `adaptive` gives it away between all looks.
    """

def start_timer(descriptor: int, ns: int, /) -> int:
    """Have a timer's descriptor turn readable once so much time has passed from now, and return it; -1: of a new timer.

    Raises OSError.
    """

def copied(view: ReadableBuffer, /) -> bytes:
    """Return the bytes of a buffer; other threads run meanwhile."""

def payload_at_end(record: ReadableBuffer, /) -> int:
    """Return where an envelope's payload begins that is popped apart, 0 where the envelope is popped in one piece."""

def load32(mapping: ReadableBuffer, offset: int, /) -> int:
    """Acquire-load an aligned u32."""

def store32(mapping: WriteableBuffer, offset: int, value: int, /) -> None:
    """Release-store an aligned u32."""

def load64(mapping: ReadableBuffer, offset: int, /) -> int:
    """Acquire-load an aligned u64."""

def store64(mapping: WriteableBuffer, offset: int, value: int, /) -> None:
    """Release-store an aligned u64."""

def guard(mapping: ReadableBuffer, lost: bool = False, /) -> None:
    """Have the mapping read zeros, and be lost, once its file was truncated; or `lost` already. Raises OSError."""

def unguard(mapping: ReadableBuffer, /) -> None:
    """Guard it no more; to be called before it is unmapped."""

def lost(mapping: ReadableBuffer, /) -> bool:
    """True when the mapping was replaced by zeros."""

def wake(mapping: WriteableBuffer, offset: int, /) -> None:
    """Wake the side that is parked on the word at this offset."""

def wait32(
    mapping: WriteableBuffer,
    offset: int,
    old: int,
    /,
    park: int,
    strategy: int,
    peer: int,
    timeout_ns: int,
) -> int:
    """Wait until the u32 at `offset` leaves `old`: 1 or Result.TIMED_OUT.

    park: byte of the word on which this side sleeps. strategy: see wait.py. peer: PEER_WAKES or 0.
    """

class PlainResults:
    """Makes what `StepResults.plain` of env/results.py makes, in one call; called with the frame.

    info: class of the info, made from `shared`, the columns that such steps have in common. reward_columns: names of
    the columns that the first signals are. copies: of the observations. reference: called with a frame whose arrays
    are no plain, contiguous ones, or in which a termination term is set.
    """

    def __init__(
        self,
        info: type[dict[str, Any]],
        shared: Mapping[str, Any],
        reward_columns: tuple[str, ...],
        copies: bool,
        reference: Callable[[Frame], StepResult],
        /,
    ) -> None: ...
    def __call__(self, frame: Frame, /) -> StepResult:
        """Return observations, rewards, terminated, truncated and info."""
