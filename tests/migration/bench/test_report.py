"""The page: self-contained, reproducible, readable without colours and without a picture."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.drawing import look
from lucky_transport_migration.bench.report import bench_markdown, bench_page, write_bench
from lucky_transport_migration.bench.suites.steps import STEP_TARGETS

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Collects what a page loads and names, and whether its elements are nested rightly."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def outline(bench_text: str) -> Outline:
    found = Outline()
    found.feed(bench_text)
    found.close()
    assert found.open == []
    return found


@pytest.mark.exhaustive
def test_a_page_loads_nothing_and_runs_nothing(bench_text: str) -> None:
    found = outline(bench_text)
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert "http:" not in bench_text
    assert "https:" not in bench_text
    assert "@import" not in bench_text
    assert not re.search(r"url\((?!#)", bench_text)
    loads = [value for _, name, value in found.attributes if name in ("src", "href", "xlink:href", "data")]
    assert all(value is not None and (value.startswith("data:image/svg") or value == "bench.json") for value in loads)


def test_a_chart_loads_nothing_and_runs_nothing(bench_text: str) -> None:
    for chart in _charts(bench_text):
        assert "<script" not in chart
        assert not re.search(r'(?:href|src)="(?!#)', chart)
        assert not re.search(r"url\((?!#)", chart)


def _charts(text: str) -> list[str]:
    """Return the SVG of each chart of a page."""
    return [base64.b64decode(one).decode() for one in re.findall(r'src="data:image/svg\+xml;base64,(.*?)"', text)]


@pytest.mark.exhaustive
def test_equal_results_give_equal_bytes(bench_result: dict[str, Any], bench_text: str) -> None:
    bench_result["targets"] = targets.check(bench_result, STEP_TARGETS)
    assert bench_page(json.loads(json.dumps(bench_result))) == bench_text


def test_page_and_markdown_show_rows_at_a_rate(bench_result: dict[str, Any], bench_text: str) -> None:
    for text in (bench_text, bench_markdown(bench_result)):
        assert "VectorEnv.step(copy=True), toy engine at work, 16 envs" in text
        assert "200 a second" in text


def test_the_order_is_the_readers(bench_text: str) -> None:
    assert outline(bench_text).headings == [
        "Transports of toy:idle",
        "At a glance",
        "Charts",
        "Where shared memory does not win",
        "Targets",
        "All rows",
        "How this was done",
    ]


def test_every_chart_is_told_in_a_sentence(bench_text: str) -> None:
    found = outline(bench_text)
    labels = [value for tag, name, value in found.attributes if tag == "img" and name == "alt"]
    assert found.tags.count("img") == len(labels) == 4
    assert all(label is not None and "shared memory" in label for label in labels)


def test_a_chart_is_white_on_a_page_of_either_theme_and_scales_with_its_column(bench_text: str) -> None:
    found = outline(bench_text)
    assert "prefers-color-scheme:dark" in bench_text
    assert not [name for tag, name, _ in found.attributes if tag == "img" and name in ("width", "height")]
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


def test_what_was_measured_twice_stands_beside_itself_at_a_glance(bench_text: str) -> None:
    glance = bench_text[bench_text.index("At a glance") : bench_text.index("Charts</h2>")]
    assert "shared memory (adaptive), again (A/A)" in glance
    assert "<b>1.00×</b>" in glance


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
