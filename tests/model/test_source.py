"""The step tables are those of the source: each row's line is there with that order, and no atomic step is left out."""

from __future__ import annotations

import pytest

from tests.model.c_source import NOT_MODELLED, atomic_steps, functions, normalised, python_functions
from tests.model.protocols import PROTOCOLS
from tests.model.steps import Step, steps_of

_BODIES = functions()
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


@pytest.mark.parametrize(("function", "order"), [("load32", "ACQUIRE"), ("load64", "ACQUIRE")])
def test_the_words_are_loaded_and_stored_with_the_orders_of_the_rows(function: str, order: str) -> None:
    assert atomic_steps(_BODIES[function]) == [f"__atomic_load_n(p, __ATOMIC_{order})"]
    number = function.removeprefix("load")
    assert atomic_steps(_BODIES[f"words_load{number}"]) == [f"{function}(place)"]
    store = f"__atomic_store_n((uint{number}_t *)place, value, __ATOMIC_RELEASE)"
    assert atomic_steps(_BODIES[f"words_store{number}"]) == [store]


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        ("client_publish", "wake(c->park_engine)"),
        ("engine_announce", "wake(e->park_frame)"),
        ("ring_publish", "ring_wake(r->park, r->eventfd)"),
        ("ring_wake", "if (eventfd < 0) return wake(park);"),
        ("ring_give_back", "wake(r->freed)"),
        ("slot_give_back", "wake(s->park)"),
        ("words_wake", "wake(place)"),
        ("ring_oldest", "ring_give_back(r, position)"),
        ("ring_taken", "ring_give_back(r, position)"),
        ("ring_reserve", "ring_free_bytes(r, &read)"),
    ],
)
def test_what_publishes_wakes_the_side_that_may_be_parked(function: str, calls: str) -> None:
    assert calls in _BODIES[function]


def test_every_function_that_stores_with_an_order_is_in_the_model() -> None:
    elsewhere = {"words_store32", "words_store64", "load32", "load64"}
    modelled = {*_FUNCTIONS, *elsewhere}
    beyond = {
        name: steps
        for name, body in _BODIES.items()
        if name not in modelled and (steps := [step for step in atomic_steps(body) if step not in NOT_MODELLED])
    }
    assert set(beyond) == {
        # truncation.c: the table of guards, of this process
        "guard_replace", "guard_range", "guards_replace", "sigbus_chain", "guard_free", "guard_set",
        "is_in_lost_mapping", "is_lost", "truncation_lost",
        # looks at a position: nothing is used behind them
        "ring_init", "ring_pending", "ring_items", "slot_owner", "words_load32", "words_load64",
        "client_init", "engine_init",
    }  # fmt: skip
