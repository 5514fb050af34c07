"""Image slots: an owner word that says which side may touch the slot, and a number that is odd while it is written.

Rows of `_native/image_slot.c` and of the message that names a slot. `leased`: what `SharedImageLease` shows without a
copy, given back by the client, taken again by an engine that waited for it. `copied`: an engine that breaks the rules
and writes to a slot of the client; a copy of torn bytes is never accepted.
"""

from tests.model.explorer import Scenario
from tests.model.protocols.park_words import narrow_changed, wait_slice, wake
from tests.model.steps import If, Order, Process, Rows, check, do, exchange, fence, load, read, store, write

RELAXED, ACQUIRE, RELEASE = Order.RELAXED, Order.ACQUIRE, Order.RELEASE
_MESSAGE = "the message orders it too; so the number alone says that the image is whole, whatever carries the message"
_SECOND_LOOK = "lucky_load32 has one order; the first look comes behind the message, the second behind its fence"


def _take(number: int, *, obeys: bool) -> Rows:
    """image_slot.c: slot_take; an engine that does not obey ignores the owner"""
    rows: Rows = []
    if obeys:
        rows = [
            *wait_slice("park", narrow_changed("owner"), lambda r: r["narrow"] == 0),
            load("owner", "owner", ACQUIRE, "slot_take", "lucky_load32(s->owner)"),
            check(lambda r: r["owner"] == 0, "a slot that was given back is owned again"),
        ]
    return [
        *rows,
        store("number", number - 1, RELAXED, "slot_take", "__atomic_store_n(s->number, number - 1, {})"),
        fence(RELEASE, "slot_take"),
    ]


def _hand_over(number: int) -> Rows:
    """image_slot.c: slot_hand_over"""
    return [
        store("number", number, RELEASE, "slot_hand_over", "__atomic_store_n(s->number, number, {})", kept=_MESSAGE),
        store("owner", number, RELAXED, "slot_hand_over", "__atomic_store_n(s->owner, number, {})"),
    ]


def _number(into: str) -> Rows:
    """image_slot.c: slot_number"""
    return [
        fence(ACQUIRE, "slot_number"),
        load(into, "number", ACQUIRE, "slot_number", "lucky_load32(s->number)", kept=_SECOND_LOOK),
    ]


def _leased(images: int) -> Scenario:
    engine: Rows = []
    client: Rows = []
    given = "__atomic_compare_exchange_n(s->owner, &number, 0, 0, {}, {})"
    for n in range(2, 2 * images + 1, 2):
        engine += [*_take(n, obeys=True), write("pixels0", n), write("pixels1", n), *_hand_over(n)]
        engine.append(store("message", n, RELEASE, "ring_publish", "__atomic_store_n(r->write, r->position, {})"))
        client += [
            load("message", "message", ACQUIRE, "ring_oldest", "lucky_load32(r->write)", until=lambda m, n=n: m == n),
            *_number("number"),
            check(lambda r, n=n: r["number"] == n, "a slot that is leased has another number"),
            do(lambda r: {"message": 0, "number": 0}),
        ]
        for i in range(2):
            client += [read("data", f"pixels{i}"), check(lambda r, n=n: r["data"] == n, "a leased slot was written")]
        client += [
            do(lambda r: {"data": 0}),
            exchange("given", "owner", 0, RELEASE, "slot_give_back", given, expected=n),
            check(lambda r: r["given"], "the slot is not the client's"),
            *wake("park"),
        ]
    words = {"number": 0, "owner": 0, "park": 0, "message": 0}
    processes = (Process("engine", engine), Process("client", client))
    return Scenario(f"leased: {images} images in one slot", processes, words, {"pixels0": 0, "pixels1": 0})


def _copied(images: int) -> Scenario:
    engine: Rows = []
    for n in range(2, 2 * images + 1, 2):
        engine += [*_take(n, obeys=False), store("pixels0", n, RELAXED), store("pixels1", n, RELAXED), *_hand_over(n)]
        if n == 2:
            engine.append(store("message", n, RELEASE, "ring_publish", "__atomic_store_n(r->write, r->position, {})"))
    client: Rows = [
        load("message", "message", ACQUIRE, "ring_oldest", "lucky_load32(r->write)", until=lambda m: m == 2),
        *_number("number"),
        If(
            lambda r: r["number"] == 2,
            [
                load("a", "pixels0", RELAXED),
                load("b", "pixels1", RELAXED),
                *_number("number"),
                check(lambda r: r["number"] != 2 or r["a"] == r["b"] == 2, "a torn copy is accepted"),
            ],
        ),
    ]
    words = {"number": 0, "owner": 0, "message": 0, "pixels0": 0, "pixels1": 0}
    name = f"copied: an engine that writes {images} images into the client's slot"
    return Scenario(name, (Process("engine", engine), Process("client", client)), words)


def scenarios(bound: int) -> list[Scenario]:
    """Bound 1: two images; each further one adds one."""
    return [_leased(bound + 1), _copied(bound + 1)]
