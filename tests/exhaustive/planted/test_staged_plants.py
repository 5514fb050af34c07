"""Each planted difference of calls is found while a program runs over `staged:`, or said to be unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport_migration.evidence.call_comparison import BEYOND
from tests.planted.call_plants import CALL_PLANTS
from tests.planted.plant import Plant
from tests.planted.staged import staged

#: Plant -> the words with which the report says that this is not looked at.
_OF_NO_CALL = "of no call: hints of errors, deadlines that expire, what comes of a stream that was left"
_OF_THE_WORLD = "it may change the world and is not made twice"
UNSEEN = {
    "another hint": _OF_NO_CALL,
    "deadlines ignored": _OF_NO_CALL,
    "cancel kept": _OF_NO_CALL,
    "items after a cancel": _OF_NO_CALL,
    "frame numbers": "ImageFrame.frame_number",
    "a step twice": _OF_THE_WORLD,
    "a setting twice": _OF_THE_WORLD,
    **{f"item 10 of images {what}": BEYOND for what in ("left out", "doubled", "swapped")},
    "last of images lost": BEYOND,
}


@pytest.fixture(autouse=True)
def _stages_as_the_file_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LUCKY_TRANSPORT", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("plant", CALL_PLANTS, ids=lambda plant: plant.name)
def test_a_difference_is_found_or_said_to_be_unseen(plant: Plant, tmp_path: Path) -> None:
    report = staged(tmp_path, plant)
    words = UNSEEN.get(plant.name)
    assert report.status == (words is None), report.text
    if words is None:
        assert report.text.startswith(("DIFFERENT: ", "FAILED: ")), report.text
    else:
        assert words in report.text


@pytest.mark.parametrize("run", range(20))
def test_without_a_plant_all_is_equal(run: int, tmp_path: Path) -> None:
    report = staged(tmp_path)
    assert report.status == 0, report.text
    assert "12 of 17 calls of 10 methods compared: 12 equal, 0 different, 0 failed" in report.text
