"""Where the items of two streams first differ, and what explains it by the least."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lucky_transport.messages import TelemetryFrame
from lucky_transport.messages.methods import method
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.rules import ComparisonRules

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


def test_streams_of_the_latest_that_skipped_nothing_have_equal_counts() -> None:
    difference = found([1, 1, 1], [1, 1])
    assert difference is not None
    assert (difference.left, difference.right) == ("3 items", "2 items, without item 2 of the other")


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


def test_where_it_is_not_known_what_was_skipped_a_count_is_no_difference() -> None:
    assert found([1, 1, 1], [1, 1], dropped=None) is None
