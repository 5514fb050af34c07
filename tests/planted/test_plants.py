"""Each planted difference is found by each tool that looks at it, and said to be unseen by the others.

One plant of each aspect is quick; the others are exhaustive.
"""

from pathlib import Path
from typing import Any

import pytest

from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages.methods import Method
from lucky_transport.process import EngineProcess
from lucky_transport_migration import paths
from tests.planted.call_plants import CALL_PLANTS
from tests.planted.plant import PLANT, Plant, PlantedTransport
from tests.planted.step_plants import STEP_PLANTS
from tests.planted.tools import TOOLS, parity_calls

QUICK = {
    *("one bit", "another step_s", "a step fails", "the peer dies", "seeds raise"),  # of steps
    *("the first reset of the next client", "a large id is rounded", "another status"),
    *("item 1 of slots left out", "item 1 of slots swapped", "blank in an error", "another hint"),
    *("the peer dies in a call", "frame numbers", "a setting twice"),
}


def rows(of: str) -> list[Any]:
    """Return each plant with each tool that finds it, or does not look at it."""
    return [
        pytest.param(
            plant, tool, id=f"{plant.name}-{tool}", marks=() if plant.name in QUICK else pytest.mark.exhaustive
        )
        for plant in (*STEP_PLANTS, *CALL_PLANTS)
        for tool in getattr(plant, of)
    ]


@pytest.fixture(autouse=True)
def _stages_as_the_file_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LUCKY_TRANSPORT", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("plant", "tool"), rows("found"))
def test_a_difference_is_found_and_named(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    TOOLS[tool](tmp_path, **plant.given.get(tool, {})).must_name(plant.words)


@pytest.mark.parametrize(("plant", "tool"), rows("unseen"))
def test_what_a_tool_does_not_look_at_is_said_in_its_report(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    TOOLS[tool](tmp_path, **plant.given.get(tool, {})).must_list(plant.unseen[tool])


@pytest.mark.exhaustive
@pytest.mark.parametrize("tool", STEP_PLANTS[0].found)
def test_a_difference_is_found_between_engine_processes(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "EngineProcess", EngineProcess)
    monkeypatch.setenv(PLANT, STEP_PLANTS[0].name)
    TOOLS[tool](tmp_path).must_name(STEP_PLANTS[0].words)


@pytest.mark.parametrize("tool", TOOLS)
def test_without_a_plant_all_is_equal(tool: str, tmp_path: Path) -> None:
    TOOLS[tool](tmp_path).must_list(
        ["12 of 17 calls of 10 methods compared: 12 equal"] if tool == "staged" else ["EQUAL"]
    )


def test_an_error_that_a_busy_machine_brings_after_a_short_deadline_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[str] = []

    def call(self: PlantedTransport, method: Method, request: Any, deadline: Deadline) -> Any:
        try:
            return self.inner.call(method, request, deadline)
        except TransportError:
            if not 0 < deadline.timeout_s < 1:
                raise
            late.append(method.name)
            raise deadline_error(method.name, deadline.timeout_s, "shm") from None

    monkeypatch.setattr(PlantedTransport, "call", call)
    report = parity_calls(tmp_path, "*", count=1)
    assert late
    assert "differs" not in report.text, report.text
