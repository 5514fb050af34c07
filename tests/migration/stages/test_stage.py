"""Stages as words: what they mean, how they are spelt, in which order they come."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.stages.stage import LADDER, ROLES, Placement, Stage

_placements = st.one_of(
    st.sampled_from([Placement(stage) for stage in Stage if stage is not Stage.CANARY]),
    st.floats(0.001, 99.999).map(lambda percent: Placement(Stage.CANARY, round(percent, 3))),
)


def test_grpc_has_the_last_word_until_a_canary_is_shared_memorys_turn() -> None:
    assert {stage: (roles.primary, roles.shadow) for stage, roles in ROLES.items()} == {
        Stage.GRPC: ("grpc", ""),
        Stage.SHADOW: ("grpc", "shm"),
        Stage.CANARY: ("shm", "grpc"),
        Stage.SHM: ("shm", "grpc"),
        Stage.COMPLETE: ("shm", ""),
    }


@given(_placements)
def test_a_placement_is_read_as_it_is_printed(placement: Placement) -> None:
    assert Placement.parse(str(placement)) == placement


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("canary 10%", Placement(Stage.CANARY, 10)),
        ("canary 10", Placement(Stage.CANARY, 10)),
        ("Canary  0.5 %", Placement(Stage.CANARY, 0.5)),
        (" SHM ", Placement(Stage.SHM)),
    ],
)
def test_people_spell_a_placement_as_they_like(text: str, placement: Placement) -> None:
    assert Placement.parse(text) == placement


@pytest.mark.parametrize(
    "text",
    ["", "canary", "canary 0%", "canary 100%", "canary -1%", "canary nan%", "shm 10%", "gRPC!", 3, None, ["shm"]],
)
def test_what_is_no_placement_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        Placement.parse(text)


@given(st.text())
def test_any_text_is_a_placement_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert Placement.parse(text).stage in Stage


def test_a_share_belongs_to_a_canary() -> None:
    with pytest.raises(ValueError, match="has no share"):
        Placement(Stage.SHM, 10)


def test_promotions_climb_the_whole_ladder_and_stop_at_its_end() -> None:
    rung, climbed = LADDER[0], [LADDER[0]]
    while rung.following != rung:
        rung = rung.following
        climbed.append(rung)
    assert (
        " -> ".join(map(str, climbed)) == "grpc -> shadow -> canary 1% -> canary 10% -> canary 50% -> shm -> complete"
    )


@given(_placements)
def test_a_promotion_goes_up_and_a_fallback_to_where_grpc_answers(placement: Placement) -> None:
    assert placement.following > placement or placement == LADDER[-1]
    assert placement.fallback < placement or placement == LADDER[0]
    assert ROLES[placement.fallback.stage].primary == "grpc"


@given(st.lists(_placements, max_size=6))
def test_placements_are_ordered_by_stage_and_then_by_share(placements: list[Placement]) -> None:
    order = list(Stage)
    expected = sorted(placements, key=lambda one: (order.index(one.stage), one.percent))
    assert sorted(placements) == expected
