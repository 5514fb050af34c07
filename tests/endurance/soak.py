"""Messages without end through a pair of rings between two processes.

    python -m tests.endurance.soak --messages 10000000

A second process connects to a listener of this one and writes; this one reads, compares each message with what it must
be, and both add up the same checksum. Sizes go from an empty message to three times the arena: beside the ring from a
quarter of it on, in fragments where the arena is too short; most are small, so that the ring holds many records and
wraps at any place. Every ECHO-th message is sent back, so that
both rings and all waits are used. Exit code 0 means that every message came once, whole and in order, the checksums are
equal, and the memory of both processes is flat.
"""

import contextlib
import random
import select
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from lucky_transport.codec.envelope import decode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, RemoteProtocolError
from lucky_transport.rpc.fragments import Assemblies
from lucky_transport.shm.arena import PAGE
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.ring import largest_record
from lucky_transport.shm.wait import STRATEGIES, strategy_code
from tests.support.memory_pipe import cut

_ARENA = 2 * PAGE

#: Each message starts with its number, so an empty one is a record of this size.
_NUMBER = struct.Struct("<I")
_RESULT = struct.Struct("<4sIQII")
ECHO = 1024
_WAIT_NS = 30_000_000_000
_SLICE_NS = 10_000_000
#: How much the memory of either process may grow after the first tenth of the messages.
FLAT_KIB = 4096
_SIZES = 4096
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class SoakReport:
    """What a soak found. Growth: KiB of resident memory after the first tenth, of the reader and of the writer."""

    messages: int
    payload_bytes: int
    checksum: int
    seconds: float
    reader_growth_kib: int
    writer_growth_kib: int

    @property
    def flat(self) -> bool:
        """True when neither process grew."""
        return max(self.reader_growth_kib, self.writer_growth_kib) <= FLAT_KIB


class MessageSequence:
    """The same messages in both processes: number `n` is a piece of one pool of random bytes."""

    def __init__(self, pipe: MemfdPipe) -> None:
        rng = random.Random(20)
        self.largest = pipe.largest_record
        top, arena = largest_record(pipe.reader.size) - _NUMBER.size, self.largest - _NUMBER.size
        longest = 3 * self.largest
        self._pool = memoryview(rng.randbytes(longest + (64 << 10)))
        #: How often, and up to what size: small, middling, what fits into the ring, what just does, what lies beside
        #: it, what needs fragments.
        ranges = (
            (40, 0, 16), (55, 0, 200), (4, 0, top), (1, top, top), (1, top + 1, arena), (0.1, arena + 1, longest),
        )  # fmt: skip
        chosen = rng.choices(ranges, [often for often, _, _ in ranges], k=_SIZES - 1)
        self._sizes = [longest, *(rng.randint(low, high) for _, low, high in chosen)]
        self._starts = [rng.randint(0, len(self._pool) - size) for size in self._sizes]

    def message(self, number: int) -> bytes:
        """Return message `number`; one longer than `largest` travels in fragments."""
        place = (number * 2654435761 >> 7) % _SIZES
        start = self._starts[place]
        return b"".join((_NUMBER.pack(number & 0xFFFFFFFF), self._pool[start : start + self._sizes[place]]))


def soak(messages: int, *, ring_bytes: int = 65536, strategy: int = 1, progress: bool = False) -> SoakReport:
    """Send so many messages from another process to this one. Raises RemoteProtocolError for what came wrong."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="lucky-soak-") as folder:
        listener = Listener(
            "soak", directory=Path(folder), ring_bytes=ring_bytes, arena_bytes=_ARENA, strategy=strategy
        )
        command = [sys.executable, "-m", "tests.endurance.soak", "--messages", str(messages)]
        command += ["--wait", _name_of(strategy), "--write-to", folder]
        with listener, subprocess.Popen(command, cwd=_ROOT) as writer:
            try:
                pipe = _one_client(listener)
                try:
                    size, checksum, growth = _read(pipe, messages, progress)
                    writer_growth = _compare(pipe, messages, size, checksum)
                finally:
                    pipe.close()
            except BaseException:
                writer.kill()
                raise
    return SoakReport(messages, size, checksum, time.perf_counter() - start, growth, writer_growth)


def _name_of(strategy: int) -> str:
    return next(name for name, code in STRATEGIES.items() if code == strategy)


def _one_client(listener: Listener) -> MemfdPipe:
    deadline = Deadline(30)
    while not deadline.expired:
        select.select([listener], [], [], 1)
        if pipes := listener.advance():
            return pipes[0]
    raise RemoteProtocolError("the writing process did not come within 30 s", backend="shm")


def _records(pipe: MemfdPipe) -> Iterator[bytes]:
    """Yield what comes; raises RemoteProtocolError when nothing comes for long."""
    pop, wait = pipe.try_pop, pipe.wait
    while True:
        record = pop()
        if record is not None:
            yield record
        elif not wait(_WAIT_NS):
            raise RemoteProtocolError(f"nothing came for {_WAIT_NS / 1e9} s", backend="shm")


def _whole(record: bytes, records: Iterator[bytes], expected: bytes, largest: int) -> bytes:
    """Return the message that begins with this record."""
    if len(expected) <= largest:
        return record
    assemblies = Assemblies(len(expected))
    while (whole := assemblies.add(decode_envelope(record))) is None:
        record = next(records)
    return whole


def _read(pipe: MemfdPipe, count: int, progress: bool) -> tuple[int, int, int]:
    """Read and compare the messages; return their bytes, their checksum and how much this process grew."""
    messages = MessageSequence(pipe)
    size = checksum = base = 0
    records = _records(pipe)
    for number in range(count):
        expected = messages.message(number)
        message = _whole(next(records), records, expected, messages.largest)
        if message != expected:
            raise RemoteProtocolError(
                f"message {number} came with {len(message)} bytes {message[:16]!r}, expected {len(expected)} bytes "
                f"{expected[:16]!r}",
                backend="shm",
            )
        size += len(message)
        checksum = zlib.crc32(message, checksum)
        if number % ECHO == ECHO - 1:
            _push(pipe, message[: messages.largest])
        if number == count // 10:
            base = _resident_kib()
        if progress and number % (count // 20 + 1) == 0:
            click.echo(f"{number} messages, {size} bytes, {_resident_kib()} KiB resident", err=True)
    return size, checksum, _resident_kib() - base


def _compare(pipe: MemfdPipe, count: int, size: int, checksum: int) -> int:
    """Read the writer's account and return its growth; raises RemoteProtocolError when it differs from ours."""
    magic, checksum_there, size_there, count_there, growth = _RESULT.unpack(next(_records(pipe)))
    if (magic, count_there, size_there, checksum_there) != (b"done", count & 0xFFFFFFFF, size, checksum):
        raise RemoteProtocolError(
            f"written: {count_there} messages, {size_there} bytes, checksum {checksum_there:08x}; "
            f"read: {count}, {size}, {checksum:08x}",
            backend="shm",
        )
    return growth


def _push(pipe: MemfdPipe, record: bytes, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Push, waiting for room; raises RemoteProtocolError when there is none for long."""
    deadline = Deadline(_WAIT_NS / 1e9)
    while not pipe.try_push(record):
        meanwhile()
        if not pipe.wait_writable(len(record), _SLICE_NS) and deadline.expired:
            raise RemoteProtocolError(f"no room for {len(record)} bytes for {_WAIT_NS / 1e9} s", backend="shm")


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


class _Writer:
    """The second process: writes the messages, takes the echoes, and gives account."""

    def __init__(self, pipe: MemfdPipe) -> None:
        self._pipe = pipe
        self._messages = MessageSequence(pipe)
        self._echoed = 0

    def run(self, count: int) -> None:
        """Write `count` messages, then wait until the reader closes."""
        size = checksum = base = 0
        push, largest = self._pipe.try_push, self._messages.largest
        for number in range(count):
            message = self._messages.message(number)
            size += len(message)
            checksum = zlib.crc32(message, checksum)
            for record in (message,) if len(message) <= largest else cut(message, number + 1, largest):
                if not push(record):
                    _push(self._pipe, record, self._take_echoes)
            if number % 64 == 0:
                self._take_echoes()
            if number == count // 10:
                base = _resident_kib()
        growth = max(0, _resident_kib() - base)
        while self._echoed < count // ECHO and self._pipe.wait(_WAIT_NS):
            self._take_echoes()
        _push(self._pipe, _RESULT.pack(b"done", checksum, size, count & 0xFFFFFFFF, growth))
        with contextlib.suppress(PeerDied):
            self._pipe.wait(_WAIT_NS)

    def _take_echoes(self) -> None:
        while (echo := self._pipe.try_pop()) is not None:
            self._echoed += 1
            number = self._echoed * ECHO - 1
            if echo != self._messages.message(number)[: self._messages.largest]:
                raise RemoteProtocolError(f"message {number} came back changed: {echo[:16]!r}", backend="shm")


@click.command(help=__doc__)
@click.option("--messages", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--ring-bytes", type=int, default=65536, show_default=True, help="Data bytes of each ring.")
@click.option("--wait", type=click.Choice(list(STRATEGIES)), default="adaptive", show_default=True)
@click.option("--write-to", hidden=True)
def main(messages: int, ring_bytes: int, wait: str, write_to: str | None) -> None:
    """Run the soak and print what it found."""
    strategy = strategy_code(wait)
    if write_to is not None:
        _Writer(connect_pipe("soak", Deadline(30), directories=[Path(write_to)], strategy=strategy)).run(messages)
        return
    outcome = soak(messages, ring_bytes=ring_bytes, strategy=strategy, progress=True)
    click.echo(
        f"{outcome.messages} messages, {outcome.payload_bytes} bytes in {outcome.seconds:.1f} s, checksum "
        f"{outcome.checksum:08x} on both sides; memory grew by {outcome.reader_growth_kib} KiB (reader) and "
        f"{outcome.writer_growth_kib} KiB (writer)"
    )
    if not outcome.flat:
        raise click.ClickException(f"the memory is not flat: more than {FLAT_KIB} KiB")


if __name__ == "__main__":
    main()
