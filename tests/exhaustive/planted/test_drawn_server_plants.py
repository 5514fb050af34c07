"""What only certain calls show of a real server is found by `parity --server` at its defaults.

What a server of its own has to show: tests/planted/test_drawn_plants.py has all differences, in memory.
"""

import json
from pathlib import Path

import pytest

from tests.planted.control_runs import desk_server
from tests.support.command import invoke

pytest.importorskip("grpc")
pytest.importorskip("grpc_tools")

#: By plant: the method that shows it, and what the report's first difference says.
PLANTS = {
    "second client": ("Echo", "of two clients in turns"),
    "requests after the half-close": ("Mark", "no further item came within"),
    "an end after the half-close": ("Add", "half-closed only when it has ended"),
    "long deadlines cut": ("Echo", "a long deadline"),
}


def parity(folder: Path, *plant: str, method: str = "*") -> dict[str, object]:
    words = ("parity", *desk_server(folder, *plant), "--method", f"Desk/{method}", "--json")
    return json.loads(invoke(*words).stdout)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_difference_that_only_certain_calls_show_is_found(tmp_path: Path, plant: str) -> None:
    method, words = PLANTS[plant]
    found = parity(tmp_path, plant, method=method)
    assert found["itself"] is None
    assert words in json.dumps(found["first_difference"])


def test_without_a_plant_all_is_equal(tmp_path: Path) -> None:
    found = parity(tmp_path)
    assert found["equal"], found["first_difference"]
    assert found["calls"] == 305
