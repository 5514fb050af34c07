"""The memory models allow of the known litmus tests what the literature says: the explorer is checked by them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.explorer import Scenario, explore
from tests.model.memory_models import MODELS
from tests.model.steps import Order, Process, Row, exchange, fence, load, read, store, write

PLAIN, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = Order
SEQUENTIAL, TSO = "sequential", "tso"
_WEAK = (RELAXED, RELAXED)
_STRONG = (RELEASE, ACQUIRE)


def ends(order: str, *threads: list[Row]) -> set[tuple[Any, ...]]:
    """Return what the threads' registers can hold in the end, one tuple for all of them."""
    processes = tuple(Process(f"T{n}", rows) for n, rows in enumerate(threads))
    found = explore(Scenario("litmus", processes, {"x": 0, "y": 0}, {"data": 0}), order)
    assert not found.violation
    return {tuple(value for values in end for value in values) for end in found.ends}


def store_buffering(between: list[Row]) -> tuple[list[Row], list[Row]]:
    return (
        [store("x", 1, RELAXED), *between, load("a", "y", RELAXED)],
        [store("y", 1, RELAXED), *between, load("b", "x", RELAXED)],
    )


def message_passing(release: Order, acquire: Order) -> tuple[list[Row], list[Row]]:
    return ([store("x", 1, RELAXED), store("y", 1, release)], [load("a", "y", acquire), load("b", "x", RELAXED)])


@pytest.mark.parametrize(("order", "weak"), [("sequential", False), ("tso", True), ("relaxed", True)])
def test_store_buffering_is_what_a_full_fence_forbids(order: str, weak: bool) -> None:
    assert ((0, 0) in ends(order, *store_buffering([]))) is weak
    assert (0, 0) not in ends(order, *store_buffering([fence(SEQ_CST)]))
    assert ((0, 0) in ends(order, *store_buffering([fence(ACQ_REL)]))) is weak


@pytest.mark.parametrize("orders", [(RELEASE, RELAXED), (RELAXED, ACQUIRE), (RELAXED, RELAXED)])
def test_a_message_needs_both_release_and_acquire(orders: tuple[Order, Order]) -> None:
    assert (1, 0) in ends("relaxed", *message_passing(*orders))
    assert (1, 0) not in ends("tso", *message_passing(*orders))
    assert (1, 0) not in ends("relaxed", *message_passing(*_STRONG))


def test_fences_do_what_orders_do() -> None:
    writer: list[Row] = [store("x", 1, RELAXED), fence(RELEASE), store("y", 1, RELAXED)]
    reader: list[Row] = [load("a", "y", RELAXED), fence(ACQUIRE), load("b", "x", RELAXED)]
    assert (1, 0) not in ends("relaxed", writer, reader)
    assert (1, 0) in ends("relaxed", [row for row in writer if row is not writer[1]], reader)
    assert (1, 0) in ends("relaxed", writer, [row for row in reader if row is not reader[1]])


@pytest.mark.parametrize("order", MODELS)
def test_one_word_is_coherent(order: str) -> None:
    reader: list[Row] = [load("a", "x", RELAXED), load("b", "x", RELAXED)]
    assert {(2, 1), (1, 0), (2, 0)}.isdisjoint(ends(order, [store("x", 1, RELAXED), store("x", 2, RELAXED)], reader))


@pytest.mark.parametrize(("orders", "allowed"), [(_WEAK, True), (_STRONG, True)])
def test_two_readers_may_see_two_writers_in_two_orders(orders: tuple[Order, Order], allowed: bool) -> None:
    """C11 and POWER allow it with release and acquire too; ARMv8 and x86 do not."""
    release, acquire = orders
    threads: list[list[Row]] = [
        [store("x", 1, release)],
        [store("y", 1, release)],
        [load("a", "x", acquire), load("b", "y", acquire)],
        [load("c", "y", acquire), load("d", "x", acquire)],
    ]
    assert ((1, 0, 1, 0) in ends("relaxed", *threads)) is allowed
    assert (1, 0, 1, 0) not in ends("tso", *threads)


def test_a_store_may_come_before_one_that_its_process_has_not_seen() -> None:
    """2+2W: the last of each word can be the first thread's for one and the second's for the other, only in C11."""
    threads: list[list[Row]] = [
        [store("x", 1, RELAXED), store("y", 2, RELAXED)],
        [store("y", 1, RELAXED), store("x", 2, RELAXED)],
        [load(name, name[0], RELAXED) for name in ("x1", "x2", "y1", "y2")],
    ]
    swapped = (2, 1, 2, 1)
    assert swapped in ends("relaxed", *threads)
    assert swapped not in ends("tso", *threads)


@pytest.mark.parametrize("order", MODELS)
def test_two_exchanges_never_get_the_same_value(order: str) -> None:
    taken = ends(order, [exchange("a", "x", 1, RELAXED)], [exchange("b", "x", 2, RELAXED)])
    assert taken == {(0, 1), (2, 0)}


@pytest.mark.parametrize("order", ["relaxed"])
def test_load_buffering_is_not_in_the_model(order: str) -> None:
    """C11 allows it for relaxed words. Payload is plain here, and a race of plain accesses is a violation already."""
    threads: list[list[Row]] = [
        [load("a", "x", RELAXED), store("y", 1, RELAXED)],
        [load("b", "y", RELAXED), store("x", 1, RELAXED)],
    ]
    assert (1, 1) not in ends(order, *threads)


@pytest.mark.parametrize(
    ("first", "second", "violation"),
    [
        (write("data", 1), read("b", "data"), "stale or torn"),
        (read("b", "data"), write("data", 1), "may still be reading"),
    ],
)
def test_plain_accesses_that_nothing_orders_are_a_violation(first: Row, second: Row, violation: str) -> None:
    def found(release: Order, acquire: Order) -> str:
        one = Process("one", [first, store("x", 1, release)])
        other = Process("other", [load("a", "x", acquire, until=lambda x: x == 1), second])
        return explore(Scenario("race", (one, other), {"x": 0}, {"data": 0}), "relaxed").violation

    assert violation in found(RELAXED, ACQUIRE)
    assert violation in found(RELEASE, RELAXED)
    assert not found(RELEASE, ACQUIRE)
