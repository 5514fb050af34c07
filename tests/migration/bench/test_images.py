"""The suite of images: sizes, forms, and what its rows and page say."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.bench.bench_page import bench_page
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.images import ImageSetup, plan_of_images, setups_of
from lucky_transport_migration.bench.workloads.images import prepare


def made_up(cell: CallCell, index: int) -> StreamMeasurement:
    """A measurement in which shm is fifty times faster than gRPC."""
    us = (2.0 if cell.path == "shm" else 100.0) * (1 + index / 100)
    return StreamMeasurement(1000, int(us * 1e6), 10**7, 10**7, False, 5)


@pytest.fixture
def result() -> dict[str, Any]:
    prepared = prepare(("grpc", "shm"), None, rounds=3, quick=False)
    results = Results()
    for index in range(prepared.plan.rounds):
        for setup in prepared.setups:
            results.add(setup, {cell: made_up(cell, index) for cell in setup.cells()})
    return prepared.result_of(results, "lucky-transport bench --suite images", load=0.0)


def test_every_size_has_a_pair_of_processes_of_its_own_on_every_transport() -> None:
    setups = [one for one in setups_of(plan_of_images(("grpc", "shm"), None, rounds=5, quick=False)) if not one.twin]
    assert len(setups) == len(set(setups))
    assert {one.path for one in setups} == {"grpc", "shm"}
    assert (1280, 720) in {one.size for one in setups}
    assert {cell.kind for cell in ImageSetup("shm", "adaptive", (84, 84)).cells()} == {"view", "copy"}


def test_a_row_tells_how_many_bytes_an_image_has(result: dict[str, Any]) -> None:
    sizes = {row["what"]: row["item_bytes"] for row in result["rows"]}
    assert sizes["1280x720"] == 1280 * 720 * 4
    assert {row["form"] for row in result["rows"]} == {"looked at", "copied"}


def test_images_are_compared_with_those_of_their_size_and_form(result: dict[str, Any]) -> None:
    assert len(result["ratios"]) == 4 * 2
    assert all(one["ratio"] == pytest.approx(50) for one in result["ratios"])
    assert (
        result["verdict"]["sentence"] == "Shared memory is faster than gRPC in 8 of 8 comparisons, each judged alone."
    )
    assert result["noise_floor"]["row"]["what"] == "1280x720"


def test_page_and_markdown_show_every_form_by_size(result: dict[str, Any]) -> None:
    text = bench_page(result)
    for form in ("looked at", "copied"):
        assert f"By size, {form}" in text
    assert text.count("<svg") == 4
    assert "RGBA image of 1280x720, copied" in bench_markdown(result)
