"""The protocols keep their invariants under each order, and the memory models allow what the litmus tests say.

Each row's line is in the source with that order, and no atomic step is left out.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.model.explorer import Scenario, explore
from tests.model.memory_models import MODELS
from tests.model.mutations import Mutation, find, mutations_of
from tests.model.protocols import PROTOCOLS
from tests.model.steps import Order, Process, Row, Step, exchange, fence, load, read, steps_of, store, write

_SCENARIOS = [(name, scenario) for name, make in PROTOCOLS.items() for scenario in make(1)]
_ALL = [scenario for _, scenario in _SCENARIOS]


@pytest.mark.parametrize("order", MODELS)
@pytest.mark.parametrize("scenario", [pytest.param(found, id=f"{name}: {found.name}") for name, found in _SCENARIOS])
def test_a_protocol_holds_under_every_order(scenario: Scenario, order: str) -> None:
    result = explore(scenario, order)
    trace = "\n".join(result.trace)
    assert not result.violation, f"{result.violation}\n{trace}"


@pytest.mark.parametrize("mutation", [pytest.param(found, id=str(found)) for found in mutations_of(_ALL)])
def test_an_order_that_is_taken_out_is_missed_or_kept_for_a_reason(mutation: Mutation) -> None:
    findings, _ = find(mutation, _ALL, first=True)
    if mutation.kept:
        assert not findings, f"it is needed, so no longer kept without need: {findings[0].result.violation}"
    else:
        assert findings, "no run needs it: simplify the source, or say in the table why it is kept"


@pytest.mark.parametrize("mutation", [pytest.param(found, id=str(found)) for found in mutations_of(_ALL)])
def test_the_table_in_the_readme_has_every_mutation(mutation: Mutation) -> None:
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"  {mutation}\n" in readme, "run python -m tests.model --mutations, and put its table there"


NATIVE = Path(__file__).parents[2] / "lucky_transport" / "_native"
KIT = NATIVE.parents[1] / "schema" / "kits" / "c"

_STEP = re.compile(
    r"\b(?:__atomic_(?:load_n|store_n|exchange_n|compare_exchange_n|fetch_add|thread_fence)|lucky_load32|lucky_load64)\("
)
_FUNCTION = re.compile(r"^(?!typedef|struct|#)[\w *]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)

#: Steps on words of this process, or on words that nothing is published by: what they are.
NOT_MODELLED = {
    "__atomic_load_n(w->stop, __ATOMIC_ACQUIRE)": "a word of this process",
    "__atomic_load_n(&r->stops, __ATOMIC_ACQUIRE)": "a word of this process",
    "__atomic_store_n(&r->stops, 1, __ATOMIC_RELEASE)": "a word of this process",
    "__atomic_exchange_n(&r->stops, 0, __ATOMIC_ACQ_REL)": "a word of this process",
    "__atomic_store_n(&e->interrupted, 1, __ATOMIC_RELEASE)": "a word of this process",
    "__atomic_exchange_n(&e->interrupted, 0, __ATOMIC_ACQ_REL)": "a word of this process",
    "__atomic_store_n(e->heartbeat, *e->heartbeat + 1, __ATOMIC_RELAXED)": "a sign of life, which publishes nothing",
    "__atomic_load_n(park + 1, __ATOMIC_RELAXED)": "the publisher's CPU: a hint, by which a wait parks sooner",
    "__atomic_store_n(park + 1, cpu, __ATOMIC_RELAXED)": "the same",
    "__atomic_store_n(e->waiter.park + 1, 0, __ATOMIC_RELAXED)": "the same",
    "__atomic_store_n(e->action_seq, e->seq, __ATOMIC_RELEASE)": "resync: the client is dead",
    "__atomic_load_n(p, __ATOMIC_ACQUIRE)": "lucky_load32 and lucky_load64 themselves",
}


def normalised(text: str) -> str:
    """Return the text with single spaces."""
    return re.sub(r"\s+", " ", text)


def functions(paths: Iterable[Path]) -> dict[str, str]:
    """Return the bodies of all functions of C files by name, comments left out."""
    found: dict[str, str] = {}
    for path in sorted(paths):
        source = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in _FUNCTION.finditer(source):
            found[match[1]] = normalised(_bracketed(source, match.end() - 1, "{}"))
    return found


def atomic_steps(body: str) -> list[str]:
    """Return the atomic steps of a function's body, as they are written, in their order."""
    return [
        body[match.start() : match.end() - 1] + _bracketed(body, match.end() - 1, "()")
        for match in _STEP.finditer(body)
    ]


def _bracketed(text: str, start: int, brackets: str) -> str:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == brackets[0]) - (text[at] == brackets[1])
        if not depth:
            return text[start : at + 1]
    raise ValueError(f"no end of {text[start : start + 40]!r}")


def python_functions() -> dict[str, str]:
    """Return the sources of the methods of the Python modules that the tables name, as "Class.method"."""
    found: dict[str, str] = {}
    for module in ("listener/poller.py", "segment/env_words.py"):
        source = (NATIVE.parent / "shm" / module).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        lines = source.splitlines()[part.lineno - 1 : part.end_lineno]
                        found[f"{node.name}.{part.name}"] = normalised("\n".join(lines))
    return found


_BODIES = functions([*NATIVE.glob("*.[ch]"), KIT / "lucky_park.h"])
_KIT = functions(KIT.glob("*.h"))
_METHODS = python_functions()


def _rows() -> dict[tuple[str, str], Step]:
    """All rows that name a line of the source, as that line is written with the row's order."""
    found: dict[tuple[str, str], Step] = {}
    for make in PROTOCOLS.values():
        for scenario in make(2):
            for process in scenario.processes:
                for step in steps_of(process.rows):
                    if step.at:
                        found[step.at, normalised(step.line().removeprefix(f"{step.at}: "))] = step
    return found


_ROWS = _rows()
_FUNCTIONS = sorted({at for at, _ in _ROWS if "." not in at})


@pytest.mark.parametrize(("at", "line"), sorted(_ROWS))
def test_the_line_of_a_row_is_in_the_source_with_that_order(at: str, line: str) -> None:
    body = _METHODS[at] if "." in at else _BODIES[at]
    assert line in body, (
        f"{at} has no {line!r} any more: change the step table, and run python -m tests.model --mutations"
    )


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_every_atomic_step_of_a_function_is_a_row(function: str) -> None:
    rows = {line for at, line in _ROWS if at == function}
    missing = [step for step in atomic_steps(_BODIES[function]) if step not in rows and step not in NOT_MODELLED]
    assert not missing, f"{function} has steps that the model has not: {missing}"


@pytest.mark.parametrize("number", [32, 64])
def test_the_words_are_loaded_and_stored_with_the_orders_of_the_rows(number: int) -> None:
    assert atomic_steps(_BODIES[f"lucky_load{number}"]) == ["__atomic_load_n(p, __ATOMIC_ACQUIRE)"]
    assert atomic_steps(_BODIES[f"words_load{number}"]) == [f"lucky_load{number}(place)"]
    store = f"__atomic_store_n((uint{number}_t *)place, value, __ATOMIC_RELEASE)"
    assert atomic_steps(_BODIES[f"words_store{number}"]) == [store]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("client_publish", "lucky_wake(c->park_engine)"),
        ("engine_announce", "lucky_wake(e->park_frame)"),
        ("ring_publish", "ring_wake(r->park, r->socket)"),
        ("ring_wake", "if (socket < 0) return lucky_wake(park);"),
        ("ring_give_back", "lucky_wake(r->freed)"),
        ("slot_give_back", "lucky_wake(s->park)"),
        ("words_wake", "lucky_wake(place)"),
        ("ring_oldest", "ring_give_back(r, position)"),
        ("ring_taken", "ring_give_back(r, position)"),
        ("ring_reserve", "ring_free_bytes(r, &read)"),
        ("EngineEnvWords.publish", "native.wake(self._mapping, self._at + _FENCE)"),
        # of the C kit, whose words are those of lucky_park.h
        ("lucky_ring_reserve", "lucky_load32(lucky_ring_word(r, LUCKY_RING_READ))"),
        ("lucky_ring_publish", "lucky_store32(lucky_ring_word(r, 0), r->position);"),
        ("lucky_outbox_try", "lucky_wake(o->park);"),
        ("lucky_ring_pop", "lucky_load32(lucky_ring_word(r, 0))"),
        ("lucky_ring_give_back", "lucky_store32(lucky_ring_word(r, LUCKY_RING_READ), position);"),
        ("lucky_ring_give_back", "lucky_wake(lucky_ring_word(r, LUCKY_RING_WRITER_PARK));"),
        ("lucky_channel_next", "lucky_load64(actions)"),
        ("lucky_channel_publish", "lucky_store64(lucky_wide(c->segment, LUCKY_OFFSET_FRAME_SEQ), ++c->frames);"),
        ("lucky_channel_publish", "lucky_wake(lucky_word(c->segment, LUCKY_OFFSET_PARK_FRAME));"),
        ("lucky_wait", "lucky_park(w, me->park, timeout_ns - waited)"),
    ],
)
def test_what_publishes_wakes_who_may_be_parked_and_so_does_the_c_kit(function: str, line: str) -> None:
    assert line in {**_KIT, **_BODIES, **_METHODS}[function]


def test_every_function_that_stores_with_an_order_is_in_the_model() -> None:
    elsewhere = {"words_store32", "words_store64", "lucky_load32", "lucky_load64", "lucky_store32", "lucky_store64"}
    beyond = {name for name, body in _BODIES.items() if not NOT_MODELLED.keys() >= set(atomic_steps(body))}
    assert beyond - {*_FUNCTIONS, *elsewhere} == {
        # whether a thread of this process is in the memory of an end
        "regain_gil", "ring_shut",
        # truncation.c: the table of guards, of this process
        "guard_replace", "guard_range", "guards_replace", "sigbus_chain", "guard_free", "guard_set",
        "is_in_lost_mapping", "is_lost", "truncation_lost",
        # looks at a position: nothing is used behind them
        "ring_init", "ring_pending", "ring_items", "slot_owner", "words_load32", "words_load64",
        "client_init", "engine_init",
    }  # fmt: skip


PLAIN, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = Order
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


@pytest.mark.parametrize(("release", "acquire"), [(RELAXED, RELAXED), _STRONG])
def test_two_readers_may_see_two_writers_in_two_orders(release: Order, acquire: Order) -> None:
    """C11 and POWER allow it with release and acquire too; ARMv8 and x86 do not."""
    threads: list[list[Row]] = [
        [store("x", 1, release)],
        [store("y", 1, release)],
        [load("a", "x", acquire), load("b", "y", acquire)],
        [load("c", "y", acquire), load("d", "x", acquire)],
    ]
    assert (1, 0, 1, 0) in ends("relaxed", *threads)
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


def test_load_buffering_is_not_in_the_model() -> None:
    """C11 allows it for relaxed words. Payload is plain here, and a race of plain accesses is a violation already."""
    threads: list[list[Row]] = [
        [load("a", "x", RELAXED), store("y", 1, RELAXED)],
        [load("b", "y", RELAXED), store("x", 1, RELAXED)],
    ]
    assert (1, 1) not in ends("relaxed", *threads)


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
