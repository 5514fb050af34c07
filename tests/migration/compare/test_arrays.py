"""Where two answers first differ."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport_migration.compare.arrays import array_rule, first_difference, flatten
from lucky_transport_migration.compare.difference import AtMove, LocatedDifference
from lucky_transport_migration.compare.rule import EXACT, Rule
from lucky_transport_migration.compare.rules import ComparisonRules


def compare(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> LocatedDifference | None:
    found = first_difference(a, b)
    return None if found is None else LocatedDifference(found, ("shm", "grpc"), AtMove("next_step", 7, "step"))


def test_equal_answers_have_no_difference() -> None:
    answer = {"observation": np.array([[1.0, np.nan]], np.float32), "flag": np.array([True])}
    assert compare(answer, {name: array.copy() for name, array in answer.items()}) is None


@given(st.integers(0, 3), st.integers(0, 4))
def test_a_difference_names_env_index_and_both_values(env: int, column: int) -> None:
    a = np.zeros((4, 5), np.float32)
    b = a.copy()
    b[env, column] = 0.25
    found = compare({"observation": a}, {"observation": b})
    assert found is not None
    assert (found.difference.where, found.difference.env, found.difference.index) == ("observation", env, (column,))
    assert found.values == {"shm": 0.0, "grpc": 0.25}
    assert f"observation of env {env} at [{column}]" in found.sentence()


def test_the_sign_of_zero_is_a_difference() -> None:
    found = compare({"reward": np.array([0.0], np.float32)}, {"reward": np.array([-0.0], np.float32)})
    assert found is not None
    assert str(found.values["grpc"]) == "-0.0"


def test_another_bit_pattern_of_nan_is_a_difference() -> None:
    quiet, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert compare({"x": np.array([quiet])}, {"x": np.array([other])}) is not None


def test_dtype_and_shape_are_compared() -> None:
    a = np.zeros(3, np.float32)
    for b in (a.astype(np.float64), a[:2]):
        found = compare({"reward": a}, {"reward": b})
        assert found is not None
        assert found.difference.env is None
        assert "float" in found.values["grpc"]


@pytest.mark.parametrize("side", [0, 1])
def test_a_field_that_only_one_side_has_is_a_difference(side: int) -> None:
    answers: list[dict[str, NDArray[Any]]] = [{}, {}]
    answers[side]["info.extra"] = np.zeros(1)
    found = compare(*answers)
    assert found is not None
    assert sorted(found.values.values()) == ["absent", "present"]


def test_a_difference_of_infinite_values_is_valid_json() -> None:
    found = compare({"x": np.array([np.inf])}, {"x": np.array([np.nan])})
    assert found is not None
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["values"] == {
        "shm": "inf",
        "grpc": "nan (0x7ff8000000000000)",
    }


def test_nested_info_becomes_flat_names() -> None:
    table = flatten({"reward_terms": {"alive": np.ones(2, np.float32)}, "note": "text", "count": 3})
    assert sorted(table) == ["info.count", "info.note", "info.reward_terms.alive"]


def test_rows_that_the_mask_declares_invalid_do_not_count() -> None:
    mask = np.array([True, False])
    a = flatten({"final_obs": np.array([[1.0], [2.0]]), "_final_obs": mask})
    b = flatten({"final_obs": np.array([[1.0], [9.0]]), "_final_obs": mask})
    assert compare(a, b) is None
    c = flatten({"final_obs": np.array([[3.0], [2.0]]), "_final_obs": mask})
    assert compare(a, c) is not None


@pytest.mark.parametrize(
    ("rows", "field", "key"),
    [
        ({"signals": 1.0, "signals*": 2.0}, "signals.alive", "signals"),
        ({"signals.alive": 1.0, "signals": 2.0}, "signals.alive", "signals.alive"),
        ({"signals.*": 1.0}, "signals.alive", "signals.*"),
        ({"rewards": 1.0, "r*": 2.0}, "reward", "rewards"),
        ({"observations": 1.0}, "observation", "observations"),
        ({"observation": 1.0}, 'observation["camera"]["left"]', "observation"),
        ({"reward": 1.0}, "terminated", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_most_exact_rule_counts_for_an_array(rows: dict[str, float], field: str, key: str) -> None:
    rules = ComparisonRules({name: Rule(abs=distance) for name, distance in rows.items()})
    assert array_rule(rules, field) == (Rule(abs=rows[key]) if key else EXACT)
