"""The demo's result and page, with the toy engine, and `lucky-transport demo` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli
from lucky_transport_migration.bench.demo import COMPARED_STEPS, PATHS
from lucky_transport_migration.bench.reading import headlines
from lucky_transport_migration.bench.report import bench_page
from lucky_transport_migration.units import times_text

pytest.importorskip("grpc")


def demo(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *arguments])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    done = demo("--engine", "toy", "--num-envs", "4", "--steps", "60", "--report", str(folder), "--json")
    assert done.exit_code == 0, done.output
    assert '"hdr":' not in done.stdout
    assert json.loads(done.stdout)["engine"] == "toy"
    return folder


@pytest.fixture(scope="module")
def result(report: Path) -> dict[str, Any]:
    return json.loads((report / "demo.json").read_text())


def test_a_report_begins_with_its_answer(report: Path, result: dict[str, Any]) -> None:
    assert {path.name for path in report.iterdir()} == {"demo.html", "demo.json", "report.md"}
    _, _, top = (report / "demo.html").read_text().partition('<div class="verdict">')
    first, _, rest = top.partition("</p>")
    assert f"{result['verdict']['word']}</span> " in first
    assert "EQUAL</span>" in rest.partition("</div>")[0]


def test_all_transports_are_equal_and_measured(result: dict[str, Any]) -> None:
    assert result["parity"]["equal"] is True
    assert result["parity"]["between"] == list(PATHS)
    assert result["parity"]["compared"]["modes"]["next_step"]["steps"] == COMPARED_STEPS
    assert result["rounds"] == 6
    assert result["options"] == {"num_envs": 4, "steps": 60, "seed": 0}
    measured = [row for row in result["rows"] if row["what"] == "toy"]
    assert [row["path"] for row in measured] == list(PATHS)
    for row in measured:
        assert row["n"] == 60
        assert {"p50", "p99"} <= set(row["us"])


def test_the_transport_alone_is_measured_with_an_engine_that_does_nothing(result: dict[str, Any]) -> None:
    alone = [row for row in result["rows"] if row["what"] == "toy:idle"]
    assert [row["path"] for row in alone] == list(PATHS)
    assert all(row["rounds"] == 6 and row["n"] >= 6 * 5 for row in alone)
    assert {row["title"] for row in alone} == {"VectorEnv.step(copy=True), the transport alone, 4 envs"}
    factor = next(one for one in result["verdict"]["beside"] if one.startswith("The transport alone"))
    p50 = {row["path"]: row["us"]["p50"] for row in alone}
    assert times_text(p50["grpc"] / p50["shm"]) in factor


def test_the_speed_up_is_taken_from_the_step_and_from_the_transport_alone(result: dict[str, Any]) -> None:
    for engine in ("toy", "toy:idle"):
        ratios = {one["to"]: one for one in result["ratios"] if one["what"] == engine}
        assert set(ratios) == {"inproc", "grpc", "grpc-batch"}
        assert all(one["low"] <= one["ratio"] <= one["high"] for one in ratios.values())
    assert [one["to"] for one in headlines(result)] == ["inproc", "grpc", "grpc-batch"]
    assert {one["what"] for one in headlines(result)} == {"toy"}


def test_the_page_tells_verdict_parity_and_limits(result: dict[str, Any]) -> None:
    text = bench_page(result, "demo.json")
    assert "✓ EQUAL" in text
    assert "http" not in text
    assert text.count("<img ") == 2
    assert text.index("EQUAL") < text.index("At a glance") < text.index("Where shared memory does not win")
    assert "compared bit for bit" in text
    assert '<a href="demo.json">' in text
    assert bench_page(json.loads(json.dumps(result)), "demo.json") == text


@pytest.mark.usefixtures("without_charts")
def test_a_difference_is_told_on_the_page(result: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(result))
    changed["parity"] |= {"equal": False, "sentence": "DIFFERENT: reward of env 3 differs"}
    text = bench_page(changed)
    assert "✗ DIFFERENT" in text
    assert "Reward of env 3 differs" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "mujocoo"], "no engine 'mujocoo'; did you mean 'mujoco'?"),
        (["--num-envs", "0"], "0 is not in the range"),
        (["--steps", "-1"], "-1 is not in the range"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = demo(*arguments, "--report", str(tmp_path))
    assert done.exit_code != 0
    assert complaint in done.output
    assert not list(tmp_path.iterdir())
