"""Each planted difference of calls is found by each tool that looks at it, and said to be unseen by the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages.methods import Method
from tests.planted.call_plants import CALL_PLANTS
from tests.planted.plant import PLANT, Plant, PlantedTransport
from tests.planted.tools import Report, parity_calls, replay_calls

FOUND = [(plant, tool) for plant in CALL_PLANTS for tool in plant.found]
UNSEEN = [(plant, tool) for plant in CALL_PLANTS for tool in plant.unseen]


def _id(value: object) -> str:
    return value.name if isinstance(value, Plant) else str(value).partition(" ")[0]


def run(tool: str, folder: Path) -> Report:
    """Run a tool of `call_plants`."""
    _, _, names = tool.partition(" --method ")
    return parity_calls(folder, names) if names else replay_calls(folder)


@pytest.mark.parametrize(("plant", "tool"), FOUND, ids=_id)
def test_a_difference_is_found_and_named(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    report = run(tool, tmp_path)
    assert "DIFFERENT" in report.text, report.text
    report.must_name(plant.found[tool])


@pytest.mark.parametrize(("plant", "tool"), UNSEEN, ids=_id)
def test_what_a_tool_does_not_look_at_is_said_in_its_report(
    plant: Plant, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANT, plant.name)
    run(tool, tmp_path).must_list(plant.unseen[tool])


@pytest.mark.parametrize("tool", ["parity --method *", "replay of calls"])
def test_without_a_plant_all_is_equal(tool: str, tmp_path: Path) -> None:
    report = run(tool, tmp_path)
    assert report.status == 0, report.text
    assert "EQUAL" in report.text


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
