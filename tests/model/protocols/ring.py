"""The ring of records: data before the write position, the copy before the read position, a writer that waits for room.
Slabs beside it, which the same two positions hand over and give back.

Rows of `_native/ring_writer.c`, `ring_reader.c` and `arena.c`. A cell is 8 bytes: a length word and a word of data (a
record of two cells has two words of data). A record may take half of the ring here, a quarter there.
"""

from tests.model.explorer import Scenario
from tests.model.protocols.park_words import ring_publish, wake
from tests.model.steps import (
    Break,
    If,
    Loop,
    Order,
    Process,
    Rows,
    check,
    do,
    fence,
    futex_wait,
    load,
    read,
    store,
    write,
)

RELAXED, ACQUIRE, RELEASE, SEQ_CST = Order.RELAXED, Order.ACQUIRE, Order.RELEASE, Order.SEQ_CST
_SKIP, _REFERENCE = "SKIP", "REFERENCE"
_LENGTH = "__atomic_load_n((const uint32_t *)(r->data + index), {})"


class Layout:
    """Where each record lies: `cells` of a ring of `size`, and the positions before and behind it."""

    def __init__(self, size: int, strides: tuple[int, ...]) -> None:
        self.size = size
        self.records: list[tuple[int, int, int, int]] = []  # position, skipped, index, stride
        position = 0
        for stride in strides:
            index = position % size
            skipped = size - index if index + stride > size else 0
            self.records.append((position, skipped, (index + skipped) % size, stride))
            position += skipped + stride

    def words(self) -> tuple[dict[str, int], dict[str, object]]:
        """The words of the ring: atomic ones and cells."""
        cells = range(self.size)
        return {"write": 0, "read": 0, "freed": 0}, {f"{word}{i}": 0 for word in ("length", "data") for i in cells}


def _free(position: int, size: int, text: str = "lucky_load32(r->read)") -> Rows:
    """ring_writer.c: ring_free_bytes"""
    return [
        load("read", "read", ACQUIRE, "ring_free_bytes", text),
        check(lambda r: 0 <= position - r["read"] <= size, "the positions cross"),
        do(lambda r: {"free": size - (position - r["read"]), "read": 0}),
    ]


def _push(ring: Layout, number: int) -> Rows:
    """ring_writer.c: ring_wait_writable, ring_reserve, the copy, ring_publish"""
    position, skipped, index, stride = ring.records[number - 1]
    need = skipped + stride
    rows: Rows = [
        Loop(
            [
                *_free(position, ring.size),
                Break(lambda r: r["free"] >= need),
                store("freed", 1, RELAXED, "wait_writable_slice", "__atomic_store_n(r->freed, 1, {})"),
                fence(SEQ_CST, "wait_writable_slice"),
                *_free(position, ring.size),
                If(lambda r: r["free"] < need, [futex_wait("freed", "wait_writable_slice", "futex_wait(r->freed,")]),
                store("freed", 0, RELAXED, "wait_writable_slice", "__atomic_store_n(r->freed, 0, {})"),
            ]
        ),
        do(lambda r: {"free": 0}),
    ]
    if skipped:
        rows.append(
            write(f"length{position % ring.size}", _SKIP, "ring_reserve", "*(uint32_t *)(r->data + index) = RING_SKIP")
        )
    rows.append(write(f"length{index}", stride, "ring_reserve", "*(uint32_t *)(r->data + index) = (uint32_t)length"))
    rows += [write(f"data{index + cell}", number) for cell in range(stride)]
    return [*rows, *ring_publish("write", position + need)]


def _pop(ring: Layout, number: int, *, give_back: bool = True) -> Rows:
    """ring_reader.c: ring_oldest, the copy, ring_give_back; the wait for a record is in park_words.py"""
    position, skipped, index, stride = ring.records[number - 1]
    rows: Rows = [
        load("write", "write", ACQUIRE, "ring_oldest", "lucky_load32(r->write)", until=lambda write: write != position),
        check(lambda r: 0 < r["write"] - position <= ring.size, "the positions cross"),
    ]
    if skipped:
        rows.append(read("length", f"length{position % ring.size}", "ring_length", _LENGTH, RELAXED))
        rows.append(check(lambda r: r["length"] == _SKIP, "no skip record where one belongs"))
    rows.append(read("length", f"length{index}", "ring_length", _LENGTH, RELAXED))
    rows.append(check(lambda r: r["length"] == stride, "a length that was not written there"))
    for cell in range(stride):
        rows.append(read("data", f"data{index + cell}"))
        rows.append(check(lambda r: r["data"] == number, f"record {number} is torn, stale, lost or doubled"))
    rows.append(do(lambda r: {"write": 0, "length": 0, "data": 0}))
    if give_back:
        rows += _give_back(position + skipped + stride)
    return rows


def _give_back(position: int) -> Rows:
    """ring_reader.c: ring_give_back"""
    text = "__atomic_store_n(r->read, position, {})"
    return [store("read", position, RELEASE, "ring_give_back", text), *wake("freed")]


def ring_scenario(size: int, strides: tuple[int, ...], batch: int = 1) -> Scenario:
    """A writer of records that take so many cells; a reader that gives back every `batch` of them."""
    ring = Layout(size, strides)
    numbers = range(1, len(strides) + 1)
    writer: Rows = [row for n in numbers for row in _push(ring, n)]
    reader: Rows = [row for n in numbers for row in _pop(ring, n, give_back=not n % batch or n == len(strides))]
    atomic, plain = ring.words()
    name = f"records of {strides} cells in a ring of {size}" + (f", read in batches of {batch}" if batch > 1 else "")
    return Scenario(name, (Process("writer", writer, {"free": 0}), Process("reader", reader)), atomic, plain)


def slab_scenario(size: int, cells: int, count: int) -> Scenario:
    """A writer of `count` references, whose slabs take one of `cells` each in turn; a reader that copies both out."""
    ring = Layout(size, (1,) * count)
    writer: Rows = []
    reader: Rows = []
    for number in range(1, count + 1):
        cell = (number - 1) % cells
        back = 0 if number <= cells else ring.records[number - cells][0]  # behind the reference that had the cell
        writer += _push_slab(ring, number, cell, back)
        reader += _pop_slab(ring, number, cell)
    atomic, plain = ring.words()
    plain = {**plain, **{f"slab{cell}": 0 for cell in range(cells)}}
    name = f"{count} slabs in an arena of {cells}, beside a ring of {size}"
    return Scenario(name, (Process("writer", writer, {"free": 0}), Process("reader", reader)), atomic, plain)


def _push_slab(ring: Layout, number: int, cell: int, back: int) -> Rows:
    """arena.c: arena_push, which finds room in the ring, then a slab that is back, copies it, and publishes"""
    position, _, index, _ = ring.records[number - 1]
    return [
        *_push(ring, number)[:2],  # room for the reference
        load("read", "read", ACQUIRE, "slabs_collect", "lucky_load32(r->read)", until=lambda read: read >= back),
        do(lambda r: {"read": 0}),
        write(f"slab{cell}", number),
        write(f"length{index}", _REFERENCE, "slab_publish", "(Reference){{RING_REFERENCE"),
        write(f"data{index}", cell),
        *ring_publish("write", position + 1),
    ]


def _pop_slab(ring: Layout, number: int, cell: int) -> Rows:
    """ring_reader.c: ring_oldest, ring_slab, the copy, ring_give_back"""
    position, _, index, _ = ring.records[number - 1]
    return [
        load("write", "write", ACQUIRE, "ring_oldest", "lucky_load32(r->write)", until=lambda write: write != position),
        read("length", f"length{index}", "ring_length", _LENGTH, RELAXED),
        check(lambda r: r["length"] == _REFERENCE, "no reference where one belongs"),
        read("data", f"data{index}"),
        check(lambda r: r["data"] == cell, "a reference to another slab"),
        read("data", f"slab{cell}"),
        check(lambda r: r["data"] == number, f"slab {number} is torn, stale or overwritten"),
        do(lambda r: {"write": 0, "length": 0, "data": 0}),
        *_give_back(position + 1),
    ]


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: a skip record, a full ring and a wrap. Each further one adds a turn of the ring."""
    strides = (2, 1, 2) if bound <= 1 else (2, 1, 2, 1, 2)[: bound + 2] + (1, 2, 2) * (bound - 1)
    found = [ring_scenario(4, strides), slab_scenario(4, 1, 1 + bound)]
    if bound > 1:
        found.append(ring_scenario(4, (1,) * (2 + 2 * bound), batch=2))
        found += [ring_scenario(2, (1,) * (3 + bound)), ring_scenario(8, (3, 3, 3, 1, 4, 2))]
    return found
