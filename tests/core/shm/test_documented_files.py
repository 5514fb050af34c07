"""What schema/README.md tells the writers of other peers about our files, read with nothing but that text."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from lucky_transport.shm.slot_files.image_file import ImageFile
from lucky_transport.shm.slot_files.latest_value import LatestValueFile

README = Path(__file__).parents[3] / "schema" / "README.md"


def _table(section: str) -> dict[str, str]:
    """Return the rows of the table of a section: first cell -> second."""
    text = README.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\d.*?) \| (.*) \|$", text, re.MULTILINE))


def _place(table: dict[str, str], what: str, slot: int = 0) -> int:
    """Return the byte of the row that describes `what`; cells are `N` or `N + 128 i`."""
    (cell,) = (cell for cell, text in table.items() if text.startswith(what))
    first, _, each = cell.removesuffix(" i").partition(" + ")
    return int(first) + slot * int(each or 0)


def _head(table: dict[str, str]) -> tuple[int, int]:
    found = re.match(r"u32 magic `(0x[0-9A-F]+)` .*?, u32 version (\d+)", table["0"])
    assert found is not None
    return int(found[1], 16), int(found[2])


def test_an_image_file_is_as_documented(tmp_path: Path) -> None:
    file = ImageFile.create(tmp_path / "one", 1, 3, 10)
    file.words[1].take(8)
    file.words[1].hand_over(8)
    raw, table = file.path.read_bytes(), _table("Images")
    assert struct.unpack_from("<II", raw) == _head(table)
    assert struct.unpack_from("<I", raw, _place(table, "u32 number of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 1)) == (8,)
    assert struct.unpack_from("<I", raw, _place(table, "u32 owner of slot", 0)) == (0,)


def test_a_latest_value_file_is_as_documented(tmp_path: Path) -> None:
    file = LatestValueFile.create(tmp_path / "one.looks.1", 10)
    file.put(b"look")
    raw, table = file.path.read_bytes(), _table("Sessions")
    assert struct.unpack_from("<II", raw) == _head(table)
    (newest,) = struct.unpack_from("<I", raw, _place(table, "u32 newest"))
    assert newest >> 2 == 1
    slot_bytes = struct.unpack_from("<Q", raw, 16)[0]
    assert raw[4096 + (newest & 3) * slot_bytes :][:12] == b"\x04\0\0\0\0\0\0\0look"
