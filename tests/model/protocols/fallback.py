"""The pure-Python fallback: plain loads and stores, no park of its own, and FUTEX_WAKE after each store.

Rows of `lucky_transport/shm/fallback*.py`. A plain access of an aligned word is relaxed at best; x86 keeps the order of
stores, so the fallback holds under TSO and not under the relaxed order: `atomics.implementation` refuses it on other
machines. A side that waits looks again and again, which is a load that waits for its value here.
"""

from __future__ import annotations

from tests.model.explorer import Scenario
from tests.model.protocols.latest_value import latest_scenario
from tests.model.protocols.lock_step import exchange_scenario
from tests.model.protocols.park_words import narrow_changed, wait_slice
from tests.model.protocols.ring import ring_scenario
from tests.model.steps import (
    If,
    Loop,
    Order,
    Process,
    Rows,
    Step,
    check,
    futex_wait,
    futex_wake,
    load,
    read,
    store,
    write,
)

__all__ = ["scenarios"]

RELAXED, ACQUIRE = Order.RELAXED, Order.ACQUIRE
_X86 = ("sequential", "tso")


def _plain(rows: Rows) -> Rows:
    """The same rows without orders. `wait_writable` polls, so its park word and the reader's look at it go."""
    changed: Rows = []
    for row in rows:
        match row:
            case Step(at="wake" | "wait_writable_slice"):
                continue
            case Step(order=Order.ACQUIRE | Order.RELEASE):
                changed.append(row.with_order(RELAXED))
            case If(condition, then):
                changed.append(If(condition, _plain(then)))
            case Loop(body):
                changed.append(Loop(_plain(body)))
            case _:
                changed.append(row)
    return changed


def _between_fallbacks(scenario: Scenario) -> Scenario:
    processes = tuple(Process(p.name, _plain(p.rows), {"parked": 0, **p.registers}) for p in scenario.processes)
    return Scenario(scenario.name, processes, scenario.atomic, scenario.plain, _X86)


def _doorbell(park: str) -> Rows:
    """fallback_words.py: Doorbell.wake"""
    return [
        store(park, 0, RELAXED, "Doorbell.wake", "self._word[0] = 0"),
        futex_wake(park, "Doorbell.wake", "futex_wake(self._mapping, self._offset)"),
    ]


def _wakes_a_native_side(records: int) -> Scenario:
    """fallback_ring.py: RingWriter.try_push, and a native reader that parks."""
    writer: Rows = []
    reader: Rows = []
    for n in range(1, records + 1):
        stored = "self._words.store32(self._offset + WRITE_POSITION, self.position)"
        writer += [
            write(f"data{n}", n),
            store("write", n, RELAXED, "RingWriter.try_push", stored),
            *_doorbell("park"),
        ]
        reader += [
            *wait_slice("park", narrow_changed("write"), lambda r, n=n: r["narrow"] >= n),
            load("narrow", "write", ACQUIRE, "ring_oldest", "load32(r->write)"),
            read("data", f"data{n}"),
            check(lambda r, n=n: r["data"] == n, "a record is torn or stale"),
        ]
    words = {"write": 0, "park": 0}
    cells = {f"data{n}": 0 for n in range(1, records + 1)}
    processes = (Process("writer", writer), Process("reader", reader))
    return Scenario(f"wakes a native reader of {records} records", processes, words, cells, _X86)


def _parks() -> Scenario:
    """What the fallback does not do: park with plain stores. The look passes the store of the park word."""
    writer: Rows = [
        store("write", 1, RELAXED),
        load("parked", "park", RELAXED),
        If(lambda r: r["parked"], _doorbell("park")),
    ]
    reader: Rows = [
        store("park", 1, RELAXED),
        load("write", "write", RELAXED),
        If(lambda r: not r["write"], [futex_wait("park")]),
    ]
    processes = (Process("writer", writer), Process("reader", reader))
    return Scenario("would lose wake-ups if it parked", processes, {"write": 0, "park": 0}, {}, ("sequential",))


def _latest(puts: int, reads: int) -> Scenario:
    """LatestValueFile over the fallback's words: the fence between its two looks is a FUTEX_WAKE."""

    def rung(rows: Rows) -> Rows:
        changed: Rows = []
        for row in rows:
            match row:
                case Step(kind="fence", at="wake"):
                    changed.append(futex_wake("always_0", "Doorbell.wake", "futex_wake(self._mapping, self._offset)"))
                case Loop(body):
                    changed.append(Loop(rung(body)))
                case _:
                    changed.append(row)
        return changed

    native = latest_scenario(puts, reads, parks=False)
    processes = tuple(Process(p.name, rung(p.rows), p.registers) for p in native.processes)
    return _between_fallbacks(Scenario(native.name, processes, native.atomic, native.plain))


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: as those of the native module."""
    return [
        _between_fallbacks(ring_scenario(4, (2, 1, 2))),
        _between_fallbacks(exchange_scenario(bound + 1, bound + 1)),
        _latest(bound + 2, bound + 1),
        _wakes_a_native_side(bound + 1),
        _parks(),
    ]
