"""Mutated ring images, and a ring that another process rewrites while it is read: never more than a refusal.

    python -m tests.endurance.fuzz rings --rounds 1000000

A round is one image: valid records, then some words and bytes of the data and the positions changed. The ends must find
in it what the rules of the ring say (`tests.support.ring_rules`), and leave the same memory behind. Meanwhile another
process writes into a shared ring all the time, and both ends work on that one too. Memory around a ring may never
change. Whatever is no record of a possible length and no RemoteProtocolError is a finding and ends the run, with the
seed and the round that show it again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from mmap import mmap
from typing import Any

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.native import RingReader, RingWriter
from lucky_transport.shm.ring import HEAD_BYTES, SKIP, largest_record, ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.endurance.fuzz import Finding
from tests.support.ring_rules import RulesReader, RulesWriter

_GUARD = 64
_SIZES = (64, 256, 1024)
_READ_POSITION = 128
_ODD = (0, 1, 4, 8, 12, 56, 60, 61, 64, 252, 255, 256, 264, 1024, 1 << 31, SKIP, SKIP - 7, SKIP - 8)
#: Rounds between two looks at the scribbled ring.
_EVERY = 8
_SHARED = 1024

_SCRIBBLER = """
import mmap, random, sys
fd, start, stop, seed = map(int, sys.argv[1:])
rng = random.Random(seed)
words = memoryview(mmap.mmap(fd, 0))[start:stop].cast("I")
odd = [0, 1, 4, 8, 12, 60, 64, 252, 256, 1024, 2**31, 2**32 - 1, 2**32 - 8]
places = [0, 0, 0, 32, 32, *range(64, len(words))]
sys.stdout.write("scribbling\\n")
sys.stdout.flush()
while True:
    for _ in range(1000):
        words[rng.choice(places)] = rng.choice(odd) if rng.random() < 0.5 else rng.randrange(256) * 8
    words[0] = words[32]
"""


class RingFuzz:
    """`run(rounds)` plays that many images; `seen` counts what came of them."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._seed = seed
        self._round = 0
        self._random = random.Random(seed)
        self._images = {size: bytearray(2 * _GUARD + ring_bytes(size)) for size in _SIZES}

    def run(self, rounds: int) -> None:
        """Play the rounds. Raises Finding."""
        with _SharedRing(self._random.randrange(1 << 30)) as shared:
            for _ in range(rounds):
                self._round += 1
                self._image()
                if self._round % _EVERY == 0:
                    self._finding_if(shared.attack(self.seen))
            self._finding_if(shared.damage())

    def _finding_if(self, what: str) -> None:
        if what:
            raise Finding(f"seed {self._seed}, round {self._round}: {what}")

    def _image(self) -> None:
        """Make an image and have it read or written by an end, and by the rules."""
        rng = self._random
        size = rng.choice(_SIZES)
        image = self._images[size]
        self._fill(image, size)
        honest = bytes(image)
        if rng.random() < 0.5:
            found = [self._play(image, honest, size, _drain, by_rules=by_rules) for by_rules in (False, True)]
        else:
            record = rng.randbytes(rng.randint(1, largest_record(size)))
            read = rng.choice(_ODD) if rng.random() < 0.5 else rng.randrange(1 << 29) * 8
            stuff = partial(_stuff, record=record, read=read)
            found = [self._play(image, honest, size, stuff, by_rules=by_rules) for by_rules in (False, True)]
        if found[0] != found[1]:
            self._finding_if(f"ring of {size}: {found[0]!r}, by the rules {found[1]!r}; image {honest.hex()}")

    def _play(
        self, image: bytearray, honest: bytes, size: int, act: Callable[..., list[Any]], *, by_rules: bool
    ) -> tuple[list[Any], bytes]:
        """Return what one of both found, and the memory it left."""
        image[:] = honest
        outcome = act(image, size, by_rules)
        if not by_rules:
            self.seen[" ".join(str(outcome[-1]).split()[:2]) if outcome else "nothing"] += 1
        after = bytes(image)
        if after[:_GUARD] != honest[:_GUARD] or after[-_GUARD:] != honest[-_GUARD:]:
            self._finding_if(f"memory around a ring of {size} was written; image {honest.hex()}")
        return outcome, after

    def _fill(self, image: bytearray, size: int) -> None:
        """Put honest records into the image, from any position, then change some of it."""
        rng = self._random
        start = (rng.randrange(1 << 29) * 8 if rng.random() < 0.5 else -8 * rng.randrange(size // 8)) % (1 << 32)
        image[:] = bytes(len(image))
        for place in (0, _READ_POSITION):
            image[_GUARD + place : _GUARD + place + 4] = start.to_bytes(4, "little")
        writer = open_writer(image, _GUARD, size)
        for _ in range(rng.randrange(8)):
            writer.try_push(rng.randbytes(rng.randint(1, largest_record(size))))
        end = writer.position
        del writer  # it holds the image's buffer
        for _ in range(rng.choice((0, 1, 1, 2, 4, 8))):
            how = rng.randrange(6)
            word = rng.choice(_ODD) if rng.random() < 0.7 else rng.randrange(1 << 32)
            if how == 0:
                _put(image, 0, (end + rng.choice((-8, 8, 16, size, 4))) % (1 << 32))
            elif how == 1:
                _put(image, 0, word)
            elif how < 4:
                _put(image, HEAD_BYTES + 8 * rng.randrange(size // 8), word)
            else:
                image[_GUARD + HEAD_BYTES + rng.randrange(size)] = rng.randrange(256)


def _put(image: bytearray, place: int, word: int) -> None:
    image[_GUARD + place : _GUARD + place + 4] = word.to_bytes(4, "little")


def _drain(image: bytearray, size: int, by_rules: bool) -> list[Any]:
    """Read all there is; the records, then None or the refusal's text."""
    found: list[Any] = []
    try:
        reader = RulesReader(image, _GUARD, size) if by_rules else open_reader(image, _GUARD, size)
        while (record := reader.try_pop()) is not None:
            found.append(record)
            if not 0 < len(record) <= largest_record(size) or len(found) > size // 8:
                return [*found, "impossible"]
        found.append(None)
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


def _stuff(image: bytearray, size: int, by_rules: bool, *, record: bytes, read: int) -> list[Any]:
    """Write until the ring is full, the read position moving in between; what each push said, then a refusal's text."""
    found: list[Any] = []
    try:
        writer = RulesWriter(image, _GUARD, size) if by_rules else open_writer(image, _GUARD, size)
        for number in range(size // 8 + 1):
            if number == 2:
                _put(image, _READ_POSITION, read)
            found.append(writer.try_push(record))
            if not found[-1]:
                break
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


class _SharedRing:
    """A ring in shared memory that a process scribbles over; `attack` reads and writes it meanwhile."""

    def __init__(self, seed: int) -> None:
        total = 2 * _GUARD + ring_bytes(_SHARED)
        self._fd = os.memfd_create("fuzz", os.MFD_CLOEXEC)
        os.ftruncate(self._fd, total)
        self._memory = mmap(self._fd, total)
        self._guard = bytes(range(_GUARD))
        self._memory[:_GUARD] = self._memory[-_GUARD:] = self._guard
        arguments = [str(self._fd), str(_GUARD), str(total - _GUARD), str(seed)]
        self._peer = subprocess.Popen(
            [sys.executable, "-c", _SCRIBBLER, *arguments], pass_fds=[self._fd], stdout=subprocess.PIPE
        )
        self._ends: tuple[RingReader, RingWriter] | None = None

    def __enter__(self) -> _SharedRing:
        assert self._peer.stdout is not None
        self._peer.stdout.readline()
        return self

    def __exit__(self, *error: Any) -> None:
        self._peer.kill()
        self._peer.communicate()
        os.close(self._fd)

    def attack(self, seen: Counter[str]) -> str:
        """Read and write a little; return what was wrong, "" when nothing was."""
        try:
            if self._ends is None:
                self._ends = (
                    open_reader(self._memory, _GUARD, _SHARED),
                    open_writer(self._memory, _GUARD, _SHARED),
                )
            reader, writer = self._ends
            for _ in range(4):
                record = reader.try_pop()
                if record is not None and not 0 < len(record) <= largest_record(_SHARED):
                    return f"a record of {len(record)} bytes out of a ring of {_SHARED}"
                seen["scribbled: record" if record else "scribbled: nothing"] += 1
                writer.try_push(b"between the lines")
        except RemoteProtocolError:
            seen["scribbled: refused"] += 1
            self._ends = None
        return ""

    def damage(self) -> str:
        """Return what happened to the memory around the ring, "" for nothing."""
        if self._memory[:_GUARD] == self._memory[-_GUARD:] == self._guard:
            return ""
        return "memory around the shared ring was written"
