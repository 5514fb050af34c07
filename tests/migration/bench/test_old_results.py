"""A bench.json of an earlier version is read as it always was: its Markdown is the golden file beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.page import bench_page
from lucky_transport_migration.bench.reading import group_title, times_of, way
from lucky_transport_migration.bench.terminal import show_bench
from lucky_transport_migration.units import us_text

OLD = Path(__file__).with_name("old")


@pytest.fixture(params=["step", "commands"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def result(name: str) -> dict[str, Any]:
    return json.loads((OLD / f"{name}.json").read_text(encoding="utf-8"))


def test_its_markdown_is_the_golden_one(result: dict[str, Any], name: str) -> None:
    assert bench_markdown(result) == (OLD / f"{name}.md").read_text(encoding="utf-8")


def test_page_and_terminal_hold_every_median_and_ratio(
    result: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_bench(result)
    shown = capsys.readouterr().out
    page = bench_page(result)
    for row in result["rows"]:
        median = us_text(row["us"]["p50"])
        assert median in shown, f"{group_title(row)}, {way(row)}"
        assert f"<td>{median}</td>" in page, f"{group_title(row)}, {way(row)}"
    for one in result["ratios"]:
        theirs = [row for row in result["rows"] if times_of(row, result) == one["ratio"]]
        assert theirs or one["wait"] not in (None, result["reference_wait"]), one["sentence"]
