"""A third process of the same user that rewrites what an engine and its clients have mapped (`fuzz_live`)."""

import contextlib
import os
import random
import re
import time
from collections import Counter
from mmap import mmap
from pathlib import Path

from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES
from lucky_transport.shm.ring import DEFAULT_RING_BYTES
from lucky_transport.shm.segment.layout import FIELDS, HEADER_BYTES, RING_HEAD_BYTES, plan
from tests.endurance.live_peers import live_engine

_SHM = Path("/dev/shm")
_ODD = (0, 1, 2, 3, 4, 7, 8, 64, 255, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 8)
#: Header words that a side reads while it runs; all others are put back after a moment.
_LIVE = (
    *("client_pid", "client_start", "client_features", "frame_seq", "frame_status", "action_seq", "engine_state"),
    *("heartbeat", "park_engine", "park_frame", "park_command", "client_lock"),
)
_BACK_S = 0.001
#: How often the files are looked for anew.
_LOOK_S = 0.05
_FRAMES, _ACTIONS = FIELDS["frame_seq"], FIELDS["action_seq"]
#: Where the rings of the engine lie in its segment, and those of the listener's clients in their memory.
_PLAN = plan(live_engine().spec, arena_bytes=DEFAULT_ARENA_BYTES)
_RINGS = {
    "segment": tuple(_PLAN[ring].offset for ring in ("ring_s2c", "ring_c2s")),
    "rings": (256, 256 + RING_HEAD_BYTES + DEFAULT_RING_BYTES),
}
#: How far before the end of either their arenas begin, and how much of each is written to.
_ARENAS = (2 * DEFAULT_ARENA_BYTES, DEFAULT_ARENA_BYTES)
_ARENA_USED = 1 << 18
#: Positions and park words in the head of a ring.
_RING_WORDS = (0, 128, 192)
#: Numbers and owners of the slots of images.
_SLOT_WORDS = (64, 68, 192, 196, 320, 324)
_MEMFD = re.compile(r"^([0-9a-f]+-[0-9a-f]+) .* /memfd:lucky_rings", re.MULTILINE)


class LiveMutator:
    """Rewrites the files of the segments that are called `name...`, and the rings that `engine` gave to clients.

    words_only: content stays as it is, namely arrays, records, pixels and the spec: then every answer has to be right.
    """

    def __init__(self, name: str, engine: int, rng: random.Random, seen: Counter[str], *, words_only: bool) -> None:
        self._name, self._engine, self._random, self._seen = name, engine, rng, seen
        self._words_only = words_only
        self._files: dict[Path, mmap] = {}
        self._look_at = 0.0

    def change_some(self) -> None:
        """Change some words of some files."""
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._map_new()
        for path, memory in self._random.sample(sorted(self._files.items()), min(2, len(self._files))):
            if path.parent != _SHM or memory.size() >= len(memory):
                self._change(path, memory)

    def cut(self) -> None:
        """Truncate one of the files."""
        files = sorted(path for path in self._files if path.parent == _SHM)
        if files:
            path = self._random.choice(files)
            with contextlib.suppress(OSError):
                os.truncate(path, self._random.choice((0, 4096, self._files[path].size() // 2)))
                self._seen[f"truncated: {_kind(path)}"] += 1
        self._files.clear()  # touching them is death: nothing guards this process

    def _map_new(self) -> None:
        """Map the files that have come; forget those that were removed."""
        there = {path for path in _SHM.glob(f"{self._name}*") if not path.name.endswith(".lock")}
        with contextlib.suppress(OSError):  # the memory of a process can be opened by root alone
            process = Path(f"/proc/{self._engine}")
            maps = (process / "maps").read_text()
            there |= {process / "map_files" / found for found in _MEMFD.findall(maps)}
        for path in self._files.keys() - there:
            del self._files[path]
        for path in there - self._files.keys():
            with contextlib.suppress(OSError, ValueError), path.open("r+b") as file:
                if os.fstat(file.fileno()).st_size > 2 * HEADER_BYTES:  # not what was truncated
                    self._files[path] = mmap(file.fileno(), 0)

    def _change(self, path: Path, memory: mmap) -> None:
        rnd, kind = self._random, _kind(path)
        count = rnd.choice((1, 16, 64, 256, 512))
        kept: dict[int, tuple[bytes, bytes]] = {}
        for _ in range(count):
            at, size, put_back = self._word(kind, memory) if self._words_only else self._place(kind, memory)
            value = self._value(size)
            if put_back:
                before, _ = kept.get(at, (memory[at : at + size], value))
                kept[at] = before, value
            memory[at : at + size] = value
        self._seen[f"mutated: {kind}"] += count
        if kept:
            time.sleep(_BACK_S)
        for at, (before, value) in kept.items():
            if memory[at : at + len(value)] != value:  # its owner has written it meanwhile
                continue
            memory[at : at + len(before)] = before
            if at == _FRAMES.offset and not self._words_only:  # as between exchanges: the next client waits for it
                memory[at : at + len(before)] = memory[_ACTIONS.offset : _ACTIONS.offset + len(before)]

    def _value(self, size: int) -> bytes:
        rnd = self._random
        if self._words_only:  # neither small, as a number that a side waits for may be, nor even, as all positions are
            return (rnd.randrange(1 << (8 * size - 8), 1 << (8 * size)) | 1).to_bytes(size, "little")
        value = rnd.choice(_ODD) if rnd.random() < 0.6 else rnd.getrandbits(8 * size)
        return (value % (1 << (8 * size))).to_bytes(size, "little")

    def _word(self, kind: str, memory: mmap) -> tuple[int, int, bool]:
        """Return where to write, how many bytes, and whether what was there has to come back: no content."""
        rnd, rings = self._random, _RINGS.get(kind, ())
        if kind == "images":
            return rnd.choice(_SLOT_WORDS), 4, False
        if rings and (kind == "rings" or rnd.random() < 0.4):
            ring = rnd.choice(rings)
            position = int.from_bytes(memory[ring : ring + 4], "little")
            if rnd.random() < 0.7 or position % 8:  # one that was rewritten would lead into a record's content
                return ring + rnd.choice(_RING_WORDS), 4, False
            at = position & (DEFAULT_RING_BYTES - 8)
            return ring + RING_HEAD_BYTES + at, 4, False  # the length of the next record
        if rnd.random() < 0.9:
            place = FIELDS[rnd.choice(_LIVE)]
            return place.offset, 8 if place.code == "Q" else 4, place is _FRAMES
        place = FIELDS[rnd.choice(sorted(FIELDS))]
        return place.offset, {"B": 1, "I": 4, "Q": 8}.get(place.code, 8), True

    def _place(self, kind: str, memory: mmap) -> tuple[int, int, bool]:
        """Return the same of everything, content too."""
        rnd, total, rings = self._random, len(memory), _RINGS.get(kind, ())
        which = rnd.random()
        if kind == "images":
            if which < 0.8:  # the head, the words of slots, their beginnings
                return rnd.choice((rnd.randrange(0, 512, 4), *range(4096, min(total, 4096 * 4) - 4, 4096))), 4, False
            return rnd.randrange(0, total - 4, 4), 4, False
        if rings and (kind == "rings" or 0.37 <= which < 0.7):
            ring = rnd.choice(rings)
            if which < 0.5:
                return ring + rnd.choice(_RING_WORDS), 4, False
            at = int.from_bytes(memory[ring : ring + 4], "little") + rnd.randrange(-512, 512, 4)
            return (
                ring + RING_HEAD_BYTES + at % DEFAULT_RING_BYTES // 4 * 4,
                4,
                False,
            )  # of the envelopes that come and go
        if rings and (kind == "rings" or 0.7 <= which < 0.75):  # a slab, or around it
            return total - rnd.choice(_ARENAS) + rnd.randrange(0, _ARENA_USED, 4), 4, False
        if which < 0.35:
            place = FIELDS[rnd.choice(_LIVE)]
            return place.offset, 8 if place.code == "Q" else 4, place is _FRAMES
        if which < 0.37:
            place = FIELDS[rnd.choice(sorted(FIELDS))]
            return place.offset, {"B": 1, "I": 4, "Q": 8}.get(place.code, 8), True
        end = _PLAN.total_size if rings else total
        at = rnd.randrange(HEADER_BYTES, HEADER_BYTES + 2048 if which < 0.85 else end - 8, 4)
        return at, 4, at > end - 16384  # there lies the spec


def _kind(path: Path) -> str:
    if path.parent != _SHM:
        return "rings"
    if path.name.endswith("_worlds"):
        return "segment of sessions"
    return "images" if ".images." in path.name else "segment"
