"""Where two answers, or the items of two streams, first differ, and how their values are shown."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport.messages import TelemetryFrame
from lucky_transport.messages.methods import method
from lucky_transport_migration.compare.arrays import array_rule, first_difference, flatten
from lucky_transport_migration.compare.difference import AtCall, AtMove, Difference, LocatedDifference, shown
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from tests.support.fixtures.migration_evidence import seen


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
    assert array_rule(rules, field) == (Rule(abs=rows[key]) if key else Rule())


LATEST, EVERY = method("TelemetryService/StreamTelemetry"), method("AgentService/StreamPolicySlotState")


def found(
    left: Sequence[int], right: Sequence[int], *, dropped: tuple[int, int] | None = (0, 0), left_early: bool = False
) -> Difference | None:
    """Return where two streams of the latest with items of these numbers differ."""
    ours, theirs = ([TelemetryFrame(frame_number=number) for number in side] for side in (left, right))
    return ItemPairs(LATEST, ours, theirs, ComparisonRules(), ended_early=left_early, dropped=dropped).differing()


@pytest.mark.parametrize("world", [[1, 2, 3, 4], [1, 1, 1, 1]], ids=["moving", "still"])
def test_one_wrong_item_is_named_with_its_value_whether_the_world_moves_or_not(world: list[int]) -> None:
    difference = found(world, [world[0], 9, *world[2:]])
    assert difference is not None
    assert (difference.aspect, difference.where) == ("item", "items[1].frame_number")
    assert (difference.left, difference.right) == (world[1], 9)


def test_items_that_a_reader_was_too_slow_for_are_no_difference() -> None:
    assert found([1, 2, 3, 4, 5, 6], [1, 2, 5, 6], dropped=(0, 2)) is None
    assert found([1, 4, 5, 6], [1, 2, 4, 5, 6], dropped=(1, 0)) is None
    assert found([1, 2, 3], [1, 2], dropped=(0, 1)) is None
    assert found([1, 2, 4, 5], [1, 3, 4, 5], dropped=(1, 1)) is None


def test_streams_that_were_left_before_they_showed_the_same_are_equal_within_what_they_skipped() -> None:
    assert found([1, 2, 3], [1, 7, 8], dropped=(0, 5), left_early=True) is None
    assert found([1, 2, 3], [1, 7, 8], dropped=(0, 1), left_early=True) is not None


def test_more_items_are_not_missing_than_were_skipped() -> None:
    difference = found([1, 2, 3, 4, 5, 6], [1, 2, 5, 6], dropped=(0, 1))
    assert difference is not None
    assert difference.aspect == "count"
    wrong = found([1, 2, 3, 4], [1, 3, 9, 4], dropped=(0, 1))
    assert wrong is not None


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("caf\u00e9 \u4e2d", "cafe\u0301 \u4e2d", ("caf<U+00E9> <U+4E2D>", "cafe<U+0301> <U+4E2D>")),
        ("5\u00a0m", "5 m", ("5<U+00A0>m", "5 m")),
        ("on\u200b", "on", ("on<U+200B>", "on")),
        ("\u4e2d", "\u65e5", ("\u4e2d", "\u65e5")),  # these do not print alike
        ("a", "b", ("a", "b")),
        (1, 1.5, (1, 1.5)),
        (float("nan"), 1.0, ("nan", 1.0)),
        (None, "x", (None, "x")),
    ],
)
def test_texts_that_print_alike_are_shown_by_their_code_points(
    left: Any, right: Any, expected: tuple[Any, Any]
) -> None:
    assert shown(left, right) == expected


@pytest.mark.parametrize("size", [0, 2_000])
@pytest.mark.parametrize("kind", [str, str.encode, list])
def test_of_long_values_the_part_that_differs_is_shown(kind: Any, size: int) -> None:
    left, right = shown(kind("x" * 2_000 + "left" + "x" * size), kind("x" * 2_000 + "right" + "x" * size))
    assert left != right
    assert "... from character" in left
    assert max(map(len, (left, right))) <= 300
    assert shown(left, right) == (left, right), "what is shown once more stays"


def test_a_line_end_in_a_value_a_place_or_a_request_does_not_tear_its_sentence() -> None:
    place = AtCall("/a.B/C", 0, "drawn", "text: a\nb")
    found = LocatedDifference(Difference("item", "labels['a\nb']", "a\nb", "a\r\nb"), ("grpc", "shm"), place)
    values = {"grpc": "a\nb", "shm": "a\r\nb"}
    evidence = seen("/a.B/C", "different", aspect="item", where="labels['a\nb']", values=values)
    for sentence in (found.sentence(), evidence.sentence):
        assert len(sentence.splitlines()) == 1
        assert "'a\\nb'" in sentence
