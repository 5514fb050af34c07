"""Latest-value files: the writer avoids the newest slot and the reader's; the reader names its slot, then looks again.

Rows of `lucky_transport/shm/slot_files/latest_value.py` over the words of `_native/words.c`; a record has two words.
"""

from __future__ import annotations

from tests.model.explorer import Scenario
from tests.model.protocols.park_words import narrow_changed, wait_slice, wake
from tests.model.steps import Break, Loop, Order, Process, Registers, Rows, check, do, load, read, store, write

ACQUIRE, RELEASE = Order.ACQUIRE, Order.RELEASE
_FILE = "LatestValueFile"
_LOOKS = "load32 has one order; the fence between the two looks orders the copy"
_MARK = "load32 has one order; the record is claimed behind it"


def _free_slot(r: Registers) -> Registers:
    taken = (r["slot"], r["reading"] - 1)
    return {"slot": next(slot for slot in range(3) if slot not in taken), "reading": 0}


def _put(number: int) -> Rows:
    """LatestValueFile.put and _publish"""
    return [
        load("reading", "reading", ACQUIRE, f"{_FILE}.put", "native.load32(self.mapping, _READING)"),
        do(_free_slot),
        write(lambda r: f"slot{r['slot']}.0", number),
        write(lambda r: f"slot{r['slot']}.1", number),
        store(
            "newest",
            lambda r: number << 2 | r["slot"],
            RELEASE,
            f"{_FILE}._publish",
            "native.store32(self.mapping, _NEWEST, self._number << 2 | slot)",
        ),
        *wake("park"),
    ]


def _claim() -> Rows:
    """LatestValueFile._claim; `wake` of a word that is always 0 is the fence"""
    newest = load(
        "newest", "newest", ACQUIRE, f"{_FILE}._claim", "newest = native.load32(mapping, _NEWEST)", kept=_LOOKS
    )
    again = load(
        "again", "newest", ACQUIRE, f"{_FILE}._claim", "if native.load32(mapping, _NEWEST) == newest:", kept=_LOOKS
    )
    reading = "native.store32(mapping, _READING, slot + 1)"
    return [
        Loop(
            [
                newest,
                store("reading", lambda r: (r["newest"] & 3) + 1, RELEASE, f"{_FILE}._claim", reading),
                *wake("always_0"),
                again,
                Break(lambda r: r["again"] == r["newest"]),
            ]
        ),
        check(lambda r: r["newest"] >> 2 >= r["last"], "an older record than the last one"),
        do(lambda r: {"last": r["newest"] >> 2, "again": 0}),
    ]


def _read() -> Rows:
    """LatestValueFile.read"""
    rows = _claim()
    for i in range(2):
        rows.append(read("data", lambda r, i=i: f"slot{r['newest'] & 3}.{i}"))
        rows.append(check(lambda r: r["data"] == r["last"], "a record that is torn or changes while it is read"))
    rows.append(do(lambda r: {"data": 0, "newest": 0}))
    rows.append(store("reading", 0, RELEASE, f"{_FILE}.read", "native.store32(self.mapping, _READING, 0)"))
    return rows


def latest_scenario(puts: int, reads: int, *, parks: bool) -> Scenario:
    """A writer of so many records; a reader that reads so often, or parks for each newer one until it has the last."""
    writer: Rows = [row for n in range(1, puts + 1) for row in _put(n)]
    reader: Rows = []
    if parks:
        waits = wait_slice("park", narrow_changed("newest"), lambda r: r["narrow"] >> 2 > r["last"])
        reader.append(Loop([Break(lambda r: r["last"] == puts), *waits, do(lambda r: {"narrow": 0}), *_read()]))
    else:
        reader.append(
            load(
                "newest",
                "newest",
                ACQUIRE,
                f"{_FILE}.mark",
                "native.load32(self.mapping, _NEWEST)",
                until=bool,
                kept=_MARK,
            )
        )
        reader += [row for _ in range(reads) for row in _read()]
    words = {"newest": 0, "reading": 0, "park": 0, "always_0": 0}
    cells = {f"slot{slot}.{i}": 0 for slot in range(3) for i in range(2)}
    what = "parks for each newer one" if parks else f"reads {reads} times"
    processes = (Process("writer", writer, {"slot": 0}), Process("reader", reader, {"last": 0}))
    return Scenario(f"{puts} records, the reader {what}", processes, words, cells)


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: three records, two reads."""
    return [latest_scenario(bound + 2, bound + 1, parks=False), latest_scenario(bound + 1, 0, parks=True)]
