"""How two values that differ are shown."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.compare.difference import AtCall, Difference, LocatedDifference
from lucky_transport_migration.compare.shown import shown
from lucky_transport_migration.evidence.record import DIFFERENT, Evidence, SideResult


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
    sides = SideResult("grpc"), SideResult("shm")
    evidence = Evidence("/a.B/C", "", *sides, verdict=DIFFERENT, aspect="item", where="labels['a\nb']", values=values)
    for sentence in (found.sentence(), evidence.sentence):
        assert len(sentence.splitlines()) == 1
        assert "'a\\nb'" in sentence
