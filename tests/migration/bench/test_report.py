"""The page and a run at a glance: self-contained, reproducible, readable without colours and without a picture."""

import base64
import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bench.charts import duration_axis, look
from lucky_transport_migration.bench.reading import all_rows, glance, headlines, lead, losses, numbers
from lucky_transport_migration.bench.report import bench_markdown, bench_page, write_bench
from lucky_transport_migration.bench.run import verdict
from lucky_transport_migration.bench.suite import check_targets
from lucky_transport_migration.cli.show_parity import show_parity
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.call_parity import WholeParity
from lucky_transport_migration.units import times_text
from tests.migration.bench.test_suites import TARGETS, made

VOID = {"meta", "br", "hr", "img", "link", "input"}


def outline(text: str) -> list[tuple[str, str]]:
    """Return the tags of a page with their attributes; its elements are nested rightly."""
    tags: list[tuple[str, str]] = []
    inside: list[str] = []
    for closing, tag, attributes in re.findall(r"<(/?)([a-z]\w*)([^>]*)>", text):
        if closing:
            assert inside.pop() == tag
            continue
        tags.append((tag, attributes))
        if tag not in VOID and not attributes.endswith("/"):
            inside.append(tag)
    assert inside == []
    return tags


@pytest.fixture
def bench_result() -> dict[str, Any]:
    """Return the result of a bench whose measurements are made up: shm is 500 times faster than legacy gRPC."""
    return copy.deepcopy(made("steps"))


@pytest.fixture(scope="module")
def bench_text() -> str:
    """Return the page of that result, with its targets."""
    return bench_page(made("steps") | {"targets": check_targets(made("steps"), TARGETS["steps"])})


@pytest.mark.exhaustive
def test_a_page_loads_nothing_and_runs_nothing(bench_text: str) -> None:
    tags = outline(bench_text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in tags}
    assert "http:" not in bench_text
    assert "https:" not in bench_text
    assert "@import" not in bench_text
    assert not re.search(r"url\((?!#)", bench_text)
    loads = [one for _, given in tags for one in re.findall(r'\b(?:src|href|data)="([^"]*)"', given)]
    assert all(one.startswith("data:image/svg") or one == "bench.json" for one in loads)


def test_a_chart_loads_nothing_and_runs_nothing(bench_text: str) -> None:
    for chart in _charts(bench_text):
        assert "<script" not in chart
        assert not re.search(r'(?:href|src)="(?!#)', chart)
        assert not re.search(r"url\((?!#)", chart)


def _charts(text: str) -> list[str]:
    """Return the SVG of each chart of a page."""
    return [base64.b64decode(one).decode() for one in re.findall(r'src="data:image/svg\+xml;base64,(.*?)"', text)]


def test_the_order_is_the_readers(bench_text: str) -> None:
    assert re.findall(r"<h[12][^>]*>(.*?)</h[12]>", bench_text) == [
        "Transports of toy:idle",
        "At a glance",
        "Charts",
        "Where shared memory does not win",
        "Targets",
        "All rows",
        "How this was done",
    ]


def test_every_chart_is_told_in_a_sentence(bench_text: str) -> None:
    images = [given for tag, given in outline(bench_text) if tag == "img"]
    labels = [re.findall(r'alt="(.*?)"', given) for given in images]
    assert len(images) == 4
    assert all("shared memory" in label for (label,) in labels)


def test_a_chart_is_white_on_a_page_of_either_theme_and_scales_with_its_column(bench_text: str) -> None:
    assert "prefers-color-scheme:dark" in bench_text
    assert not re.search(r"<img[^>]*\b(width|height)=", bench_text)
    for chart in _charts(bench_text):
        ground = re.search(r'<g id="patch_1">\s*<path [^>]*style="fill: (#\w+)', chart)
        assert ground is not None
        assert ground[1] == "#ffffff"


def test_every_path_of_a_chart_is_named_and_none_looks_like_another(bench_text: str) -> None:
    names = ("shared memory", "legacy gRPC", "gRPC batch service", "same process", "native limit")
    percentiles = _charts(bench_text)[0]
    assert all(f">{name}</text>" in percentiles for name in names)
    looks = [look(name) for name in ("shm", "grpc", "grpc-batch", "inproc", "limit", "ray")]
    for part in ("color", "linestyle", "marker"):
        assert len({str(one[part]) for one in looks}) == len(looks)


def test_the_ratio_is_the_second_column(bench_text: str) -> None:
    heads = re.findall(r'<th scope="col">(.*?)</th>', bench_text)
    assert heads[:2] == ["One exchange", "1 env"]
    steps = heads[heads.index("One exchange, 1 env, 50 a second") :]
    assert steps[1:4] == ["× shared memory", "p50 µs", "p99"]


def test_outcomes_are_words_with_a_shape(bench_text: str) -> None:
    assert re.search(r'<span class="word good">✓ PASS</span>', bench_text)
    assert re.search(r'<span class="word open">○ NOT MEASURED</span>', bench_text)


@pytest.mark.usefixtures("without_charts")
def test_text_from_outside_is_escaped(bench_result: dict[str, Any]) -> None:
    bench_result["command"] = "lucky-transport bench '<script>alert(1)</script>' & more"
    text = bench_page(bench_result)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_names_in_markdown_are_names(bench_result: dict[str, Any]) -> None:
    bench_result["notes"] = ["engine a|b\n<script>`[x](y)"]
    bench_result["command"] = "lucky-transport bench 'a`|\n# b'"
    lines = bench_markdown(bench_result).splitlines()
    assert r"- engine a\|b\\n\<script\>\`\[x\](y)" in lines
    assert r"- `lucky-transport bench 'a'|\n# b'`" in lines


@pytest.mark.usefixtures("without_charts")
def test_page_and_json_are_written_side_by_side(bench_result: dict[str, Any], tmp_path: Path) -> None:
    path = write_bench(bench_result, tmp_path / "new" / "report")
    assert path.name == "bench.html"
    assert path.read_text(encoding="utf-8") == bench_page(bench_result)
    assert json.loads((path.parent / "bench.json").read_text()) == json.loads(json.dumps(bench_result))


def test_a_report_that_cannot_be_written_says_so(bench_result: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="--report"):
        write_bench(bench_result, tmp_path / "file" / "report")


@pytest.mark.parametrize("paths", [("inproc",), ("shm",), ("grpc", "inproc")])
def test_a_page_is_drawn_for_whatever_was_measured(bench_result: dict[str, Any], paths: tuple[str, ...]) -> None:
    bench_result["rows"] = [row for row in bench_result["rows"] if row["path"] in paths and row["size"] == 1]
    bench_result["ratios"] = [one for one in bench_result["ratios"] if one["to"] in paths and one["of"] in paths]
    bench_result |= {"reference": paths[0], "reference_wait": "adaptive" if paths[0] == "shm" else None}
    bench_result["noise_floor"] = None
    outline(bench_page(bench_result))


def test_each_cell_has_the_ratio_of_the_result_and_p50(bench_result: dict[str, Any]) -> None:
    exchange, *_ = glance(bench_result)
    assert (exchange.title, exchange.heads) == ("One exchange", ["1 env", "64 envs"])
    cells = {name: first for name, first, *_ in exchange.rows}
    rows = {row["path"]: row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"}
    (ratio,) = (one for one in headlines(bench_result) if (one["to"], one["size"]) == ("grpc", 1))
    assert cells["shared memory (adaptive)"].startswith("1.00× ")
    assert cells["legacy gRPC"].startswith(f"{times_text(ratio['ratio'])}× ")
    assert rows["grpc"]["times"] == ratio["ratio"] == pytest.approx(500, rel=0.1)


def test_ways_stand_fastest_first_and_a_size_that_was_not_measured_is_empty(bench_result: dict[str, Any]) -> None:
    exchange, *_ = glance(bench_result)
    names = [name for name, *_ in exchange.rows]
    assert names[0] == "native limit (spin)"
    assert names[-2:] == ["gRPC batch service", "legacy gRPC"]
    assert {name: cells for name, *cells in exchange.rows}["native limit (spin)"][1] == "–"


def test_rates_of_one_size_are_columns_too(bench_result: dict[str, Any]) -> None:
    found = {table.title: table.heads for table in glance(bench_result)}
    assert found["VectorEnv.step(copy=True), toy engine at work, 16 envs"] == [f"{n} a second" for n in (50, 200, 1000)]


def test_the_second_measurement_stands_behind_the_first(bench_result: dict[str, Any]) -> None:
    rows = bench_result["rows"]
    (at,) = (i for i, row in enumerate(rows) if row["again"])
    assert [rows[at][key] for key in ("path", "wait", "title")] == ["shm", "adaptive", rows[at - 1]["title"]]
    assert rows[at]["way"] == f"{rows[at - 1]['way']}, again (A/A)"
    assert rows[at]["times"] == bench_result["noise_floor"]["ratio"]


def test_the_first_sentence_and_the_big_numbers_are_of_an_exchange(bench_result: dict[str, Any]) -> None:
    assert lead(bench_result).startswith("One exchange over shared memory, p50: ")
    assert [meaning.partition(" (")[0] for _, meaning in numbers(bench_result)] == [
        "One exchange, 1 env: legacy gRPC",
        "One exchange, 64 envs: legacy gRPC",
    ]


def test_all_rows_are_in_tables_of_which_only_the_way_differs(bench_result: dict[str, Any]) -> None:
    tables = all_rows(bench_result)
    assert sum(len(table.rows) for table in tables) == len(bench_result["rows"])
    assert all(len({row[0] for row in table.rows}) == len(table.rows) for table in tables)


def test_an_unsupported_percentile_is_a_dash_and_an_empty_column_is_left_out(bench_result: dict[str, Any]) -> None:
    first, second, *_ = [row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"]
    second |= {"reliable_to": "p50"}
    (table,) = all_rows(bench_result | {"rows": [first, second]})
    assert [row[table.heads.index("p99") + 1] == "–" for row in table.rows] == [False, True]
    assert "p99.99" not in table.heads


def test_losses_name_what_is_not_faster(bench_result: dict[str, Any]) -> None:
    text = " ".join(losses(bench_result))
    assert "slower than native limit (spin)" in text
    assert "slower than legacy gRPC" not in text


def test_losses_name_more_cpu_and_slower_tails(bench_result: dict[str, Any]) -> None:
    rows = [row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"]
    (ours,) = (row for row in rows if row["wait"] == "adaptive" and not row["again"])
    ours["cpu_us_each"] = {"client": 1e6, "engine": 1e6}
    ours["us"]["p99"] = 1e7
    found = losses(bench_result)
    for what in ("at p99 over legacy gRPC", "of CPU over legacy gRPC"):
        assert any(what in sentence and sentence.startswith("One exchange, 1 env: ") for sentence in found)
    ours["reliable_to"] = "p50"
    assert not any(
        "at p99 over legacy gRPC" in one and one.startswith("One exchange, 1 env:") for one in losses(bench_result)
    )


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
        (True, True, ["EQUAL steps", "EQUAL calls", "EQUAL: steps and calls."]),
        (True, False, ["EQUAL steps", "DIFFERENT calls"]),
        (False, True, ["EQUAL calls", "DIFFERENT steps"]),
    ],
)
def test_the_verdict_of_parity_is_the_last_line_and_what_differs_nearest_to_it(
    steps: bool, calls: bool, last: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ComparisonRules()
    plain = {"between": (), "table": ((), ()), "compared_text": "", "not_compared": {}, "rules": rules}
    parts: Any = [
        SimpleNamespace(equal=equal, sentence=f"{'EQUAL' if equal else 'DIFFERENT'} {name}", **plain)
        for name, equal in (("steps", steps), ("calls", calls))
    ]
    show_parity(WholeParity(*parts))
    assert [line for line in capsys.readouterr().out.splitlines() if "EQUAL" in line or "DIFF" in line] == last
