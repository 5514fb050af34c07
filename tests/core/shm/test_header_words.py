"""Words of the header that the other side may be storing meanwhile: one ordered access each, on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import native
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import FIELDS, HEADER_BYTES

WORDS = [name for name, place in FIELDS.items() if place.code in ("I", "Q")]


@pytest.fixture
def memory(tmp_path: Path) -> mmap:
    path = tmp_path / "memory"
    path.write_bytes(bytes(HEADER_BYTES))
    with path.open("r+b") as file:
        return mmap(file.fileno(), HEADER_BYTES)


@pytest.mark.parametrize("name", WORDS)
def test_a_word_is_loaded_and_stored_by_the_ordered_accesses_of_its_size(
    name: str, memory: mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def noting(access: str) -> Any:
        real = getattr(native, access)

        def note(mapping: mmap, offset: int, *value: int) -> Any:
            seen.append((access, offset))
            return real(mapping, offset, *value)

        return note

    for access in ("load32", "load64", "store32", "store64"):
        monkeypatch.setattr(native, access, noting(access))
    place = FIELDS[name]
    bits = 32 if place.code == "I" else 64
    largest = 2**bits - 1
    header.put(memory, name, largest)
    assert header.get(memory, name) == largest
    assert seen == [(f"store{bits}", place.offset), (f"load{bits}", place.offset)]


def test_words_are_loaded_as_they_were_stored_and_refused_outside(memory: mmap) -> None:
    native.store64(memory, 8, 2**64 - 2)
    assert native.load64(memory, 8) == 2**64 - 2
    assert (native.load32(memory, 8), native.load32(memory, 12)) == (2**32 - 2, 2**32 - 1)
    for offset in (4, HEADER_BYTES - 4, HEADER_BYTES, 2**63):
        with pytest.raises(ValueError, match="does not lie in"):
            native.load64(memory, offset)
        with pytest.raises(ValueError, match="does not lie in"):
            native.store64(memory, offset, 1)


def test_a_mapping_that_may_only_be_read_can_be_read(tmp_path: Path, memory: mmap) -> None:
    memory[:] = bytes(range(256)) * (HEADER_BYTES // 256)
    with (tmp_path / "memory").open("rb") as file:
        shown = mmap(file.fileno(), 0, access=ACCESS_READ)
    for name in FIELDS:
        assert header.get(shown, name) == header.get(memory, name)


_STORE_ALTERNATELY = """
import mmap, os, sys
file = open(sys.argv[1], "r+b")
words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
print("storing", flush=True)
while os.getppid() == int(sys.argv[3]):
    for _ in range(1000):
        words[int(sys.argv[2]) // 8] = 0
        words[int(sys.argv[2]) // 8] = 2**64 - 1
"""


def test_no_half_of_a_word_is_ever_seen(tmp_path: Path, memory: mmap) -> None:
    command = [sys.executable, "-c", _STORE_ALTERNATELY, str(tmp_path / "memory")]
    command += [str(FIELDS["frame_seq"].offset), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == b"storing\n"
        try:
            seen = {header.get(memory, "frame_seq") for _ in range(200_000)}
        finally:
            peer.kill()
    assert seen <= {0, 2**64 - 1}
