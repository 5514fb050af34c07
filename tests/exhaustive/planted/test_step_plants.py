"""Each planted difference of steps is found by each tool that looks at it, and said to be unseen by the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.process import EngineProcess
from lucky_transport_migration import paths
from tests.planted.plant import PLANT, Plant
from tests.planted.step_plants import STEP_PLANTS
from tests.planted.tools import TOOLS

FOUND = [(plant, tool) for plant in STEP_PLANTS for tool in plant.found]
UNSEEN = [(plant, tool) for plant in STEP_PLANTS for tool in plant.unseen]


def _id(value: object) -> str:
    return value.name if isinstance(value, Plant) else str(value).partition(" ")[0]


@pytest.mark.parametrize(("plant", "tool"), FOUND, ids=_id)
def test_a_difference_is_found_and_named(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    TOOLS[tool](tmp_path, **plant.given.get(tool, {})).must_name(plant.found[tool])


@pytest.mark.parametrize(("plant", "tool"), UNSEEN, ids=_id)
def test_what_a_tool_does_not_look_at_is_said_in_its_report(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    TOOLS[tool](tmp_path, **plant.given.get(tool, {})).must_list(plant.unseen[tool])


@pytest.mark.parametrize("tool", TOOLS)
def test_a_difference_is_found_between_engine_processes(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = STEP_PLANTS[0]
    monkeypatch.setattr(paths, "EngineProcess", EngineProcess)
    monkeypatch.setenv(PLANT, plant.name)
    TOOLS[tool](tmp_path).must_name(plant.found[tool])


@pytest.mark.parametrize("tool", TOOLS)
def test_without_a_plant_all_is_equal(tool: str, tmp_path: Path) -> None:
    report = TOOLS[tool](tmp_path)
    assert report.status == 0, report.text
    assert "EQUAL" in report.text
