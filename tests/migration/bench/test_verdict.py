"""The verdict of a run, where it stands, and when there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport_migration.bench.drawing import duration_axis
from lucky_transport_migration.bench.ratios import verdict
from lucky_transport_migration.bench.report import bench_page
from lucky_transport_migration.parity import whole_parity

RATIOS = [{"to": "grpc", "word": "FASTER"}]


@pytest.mark.parametrize(
    ("floor", "word"), [(None, "FASTER"), (1.02, "FASTER"), (1.5, "FASTER"), (260.0, "INCONCLUSIVE")]
)
def test_a_machine_that_differs_from_itself_gives_no_verdict(floor: float | None, word: str) -> None:
    found = verdict("shm", RATIOS, "checked", None if floor is None else {"ratio": floor})
    assert found["word"] == word
    if word == "INCONCLUSIVE":
        assert "differed from itself by a factor of 260" in found["sentence"]


@pytest.mark.usefixtures("without_charts")
def test_a_page_of_a_noisy_run_begins_with_that_and_has_no_figure_before_its_tables(
    bench_result: dict[str, Any],
) -> None:
    noisy = verdict("shm", RATIOS, "checked", {"ratio": 260.0})
    page = bench_page(bench_result | {"verdict": noisy})
    first = page[page.index('<div class="verdict">') : page.index("At a glance")]
    assert first.index("○ INCONCLUSIVE") < first.index("too noisy")
    assert "µs" not in first
    assert "×" not in first


@pytest.mark.usefixtures("without_charts")
def test_a_page_says_when_it_was_measured_by_its_data(bench_result: dict[str, Any]) -> None:
    bench_result["environment"]["date"] = "2026-01-31T12:00:00Z"
    assert "6 rounds of fresh process pairs, in alternating order; measured 2026-01-31 12:00:00 UTC" in bench_page(
        bench_result
    )


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [(5e-6, 15e-6, 2, 3), (12e-6, 90e-6, 2, 3), (3e-6, 30e-6, 3, 4), (8e-6, 0.12, 3, 6)],
)
def test_an_axis_of_durations_has_a_scale(low: float, high: float, least: int, most: int) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    _, axes = pyplot.subplots()
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    duration_axis(axes.yaxis, low, high)
    assert least <= sum(0.999 * low <= tick <= 1.001 * high for tick in axes.yaxis.get_majorticklocs()) <= most
    pyplot.close()


@pytest.mark.parametrize(
    ("steps", "calls", "last"),
    [
        (True, True, "EQUAL: steps and calls."),
        (True, False, "DIFFERENT"),
        (False, True, "DIFFERENT"),
    ],
)
def test_the_verdict_of_parity_is_the_last_line(
    steps: bool, calls: bool, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[Any] = []

    def show(part: Any) -> None:
        shown.append(part)
        print("EQUAL" if part.equal else "DIFFERENT")

    monkeypatch.setattr(whole_parity, "show_parity", show)
    parts: Any = [SimpleNamespace(equal=equal) for equal in (steps, calls)]
    whole_parity.show_whole_parity(whole_parity.WholeParity(*parts))
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert [one.equal for one in shown] == sorted((steps, calls), reverse=True), (
        "what differs is nearest to the verdict"
    )
