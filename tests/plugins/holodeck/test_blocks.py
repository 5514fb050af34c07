"""A block never kills a peer, and keeps what was written into it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator

import numpy as np
import pytest

from lucky_transport.errors import SegmentError
from lucky_transport.process import unique_name
from lucky_transport_holodeck.blocks import BlockFile, BlockFiles, SharedArray
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.semaphores import Semaphore, unlink
from tests.support.foreign_files import KINDS, MakeForeignFile, foreign_uid


@pytest.fixture
def files() -> Generator[BlockFiles]:
    made = BlockFiles(Names(unique_name()))
    yield made
    made.unlink()
    made.names.block("x").unlink(missing_ok=True)  # where it was made by an array alone


def test_a_block_of_the_right_size_is_not_truncated_under_an_engine_that_has_it_mapped(files: BlockFiles) -> None:
    path = files.names.block("x")
    files.open("x", 4).close()
    first = SharedArray(path, "uint8", (4096,))
    number = os.stat(path).st_ino
    mapped_before = first.array
    second = SharedArray(path, "uint8", (4096,))
    second.array[4095] = 7
    assert os.stat(path).st_ino == number
    assert mapped_before[4095] == 7


def test_a_block_that_an_engine_has_made_larger_is_not_cut_under_it(files: BlockFiles) -> None:
    """HoloOcean's engine gives a lidar a larger block than its client does, and goes on with it for the next client."""
    path = files.names.block("x")
    engine = SharedArray(path, "uint8", (3 * mmap.PAGESIZE,)).array
    client = SharedArray(path, "uint8", (mmap.PAGESIZE,)).array
    assert os.stat(path).st_size == 3 * mmap.PAGESIZE
    engine[0] = 7
    assert client[0] == 7
    assert SharedArray(path, "uint8", (4 * mmap.PAGESIZE,)).array.size == os.stat(path).st_size


def test_a_new_block_holds_zeros(files: BlockFiles) -> None:
    SharedArray(files.names.block("x"), "float32", (3,)).array[:] = 5
    files.open("x", 12).close()
    assert not SharedArray(files.names.block("x"), "float32", (3,)).array.any()


def test_what_a_client_cut_off_is_zeros_for_the_engine(files: BlockFiles) -> None:
    block = SharedArray(files.names.block("x"), "uint8", (8,))
    file = files.open("x", 8)
    block.array[:] = 9
    assert file.read() == b"\x09" * 8
    os.truncate(file.path, 3)
    assert file.read() == b"\x09" * 3 + b"\0" * 5
    room = np.full(8, 1, np.uint8)
    file.read_into(room.data)
    assert room.tolist() == [9, 9, 9, 1, 1, 1, 1, 1]
    file.write(b"\x05" * 8)
    assert file.read() == b"\x05" * 8
    file.close()


def test_both_ends_see_what_the_other_one_writes(files: BlockFiles) -> None:
    block, file = SharedArray(files.names.block("x"), "float32", (2,)), files.open("x", 8)
    file.write(np.array([1.5, -2.5], np.float32).data)
    assert block.array.tolist() == [1.5, -2.5]
    block.array[0] = 4
    assert np.frombuffer(file.read(), np.float32).tolist() == [4, -2.5]
    file.close()


def test_every_block_that_was_opened_is_removed(files: BlockFiles) -> None:
    opened: list[BlockFile] = [files.open(key, 1) for key in ("a", "b")]
    files.unlink()
    assert not any(file.path.exists() for file in opened)
    for file in opened:
        file.close()
        file.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_or_semaphore_of_another_user_is_refused_and_left_alone(
    kind: str, files: BlockFiles, make_foreign_file: MakeForeignFile
) -> None:
    block, name = files.names.block("x"), files.names.server
    semaphore = Names.file_of(name)
    try:
        for path in (block, semaphore):
            make_foreign_file(path, kind, b"\0" * 64)
        for use in (
            lambda: SharedArray(block, "uint8", (8,)),
            lambda: files.open("x", 8),
            lambda: Semaphore.create(name, 0),
            lambda: Semaphore.open(name),
            lambda: Semaphore.open_or_create(name),
        ):
            with pytest.raises(SegmentError, match=f"of user {foreign_uid()}"):
                use()
        files.unlink()
        unlink(name)
        assert block.lstat().st_uid == semaphore.lstat().st_uid == foreign_uid()
    finally:
        for path in (block, semaphore):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_block_that_the_original_made_with_its_own_mode_is_used(files: BlockFiles) -> None:
    path = files.names.block("x")
    path.write_bytes(b"\x05" * 8)
    path.chmod(0o755)
    assert files.open("x", 8).read() == b"\x05" * 8
