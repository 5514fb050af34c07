"""`lucky-transport bench` as a user types it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli
from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suites import steps
from lucky_transport_migration.bench.suites.stubs import cases_of, plan_of_stubs
from lucky_transport_migration.bench.targets import SpeedTarget

QUICK = ("--quick", "--num-envs", "2")


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments])


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench.json of a run in process; `again` shows it once more."""
    folder = tmp_path_factory.mktemp("bench")
    done = bench("--between", "inproc", *QUICK, "--report", str(folder))
    assert done.exit_code == 0, done.output
    return folder / "bench.json"


@pytest.fixture
def again(one_run: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Type the command of that run with further arguments; nothing is measured a second time."""

    def run(self: PreparedSuite, command: str, advance: Callable[..., None], tell: Any) -> dict[str, Any]:
        for piece in range(self.pieces):
            advance(f"piece {piece}")
        return json.loads(one_run.read_text())

    monkeypatch.setattr(PreparedSuite, "run", run)
    return lambda *arguments: bench("--between", "inproc", *QUICK, *arguments)


def test_json_has_environment_rows_and_ratios(tmp_path: Path) -> None:
    done = bench("--between", "inproc,shm", *QUICK, "--check", "--json", "--report", str(tmp_path))
    found = json.loads(done.stdout)
    assert done.exit_code == int("FAIL" in {row["word"] for row in found["targets"]})
    assert {"environment", "rows", "ratios", "notes", "targets"} <= set(found)
    assert {(row["path"], row["size"]) for row in found["rows"]} >= {("inproc", 2), ("shm", 2)}
    assert {row["kind"] for row in found["rows"]} == {"exchange", "in place", "step", "view", "frame"}
    assert {row["wait"] for row in found["rows"] if row["path"] == "shm"} == {"adaptive"}
    assert {row["word"] for row in found["targets"]} <= {"NO VERDICT", "NOT MEASURED"}
    assert found["verdict"]["word"] == "NO VERDICT"
    assert {one["word"] for one in found["ratios"]} == {"NO VERDICT"}
    assert found["reference"] == "shm"
    written = json.loads((tmp_path / "bench.json").read_text())
    assert len(written["rows"]) == len(found["rows"])
    assert (tmp_path / "bench.html").stat().st_size > 10_000
    markdown = (tmp_path / "report.md").read_text()
    assert markdown.startswith("## Transports of toy:idle\n\n**NO VERDICT** ")
    for shown in (markdown, (tmp_path / "bench.html").read_text()):
        assert "FASTER" not in shown
        assert "Looked at in each exchange or item of" in shown


def test_an_engine_with_composite_spaces_is_measured() -> None:
    done = bench("toy:composite", "--quick", "--num-envs", "1", "--between", "shm", "--json")
    assert done.exit_code == 0, done.output


def test_people_get_sentences_tables_and_notes(again: Callable[..., Result]) -> None:
    done = again("--check")
    assert "Traceback" not in done.output
    assert "One exchange, 2 envs" in done.output
    assert "NOT MEASURED" in done.output
    assert "p50 is the median over rounds" in done.output.replace("\n", " ")


@pytest.mark.parametrize(("measured", "code"), [(1.0, 0), (0.5, 1), (None, 0)])
def test_a_promise_that_fails_is_an_exit_code(
    again: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, measured: float | None, code: int
) -> None:
    target = SpeedTarget("a promise", "at least", 1.0, "times", {"path": "nowhere"} if measured is None else measured)
    monkeypatch.setattr(targets, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(steps, "STEP_TARGETS", (target,))
    done = again("--check")
    assert done.exit_code == code, done.output
    assert again().exit_code == 0


def test_sigterm_ends_a_run_as_ctrl_c_does(one_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: PreparedSuite, *_: Any) -> dict[str, Any]:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        return json.loads(one_run.read_text()) | {"stopped": "interrupted"}

    monkeypatch.setattr(PreparedSuite, "run", run)
    before = signal.getsignal(signal.SIGTERM)
    assert bench("--between", "inproc", *QUICK).exit_code == 1
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--between", "inproc,pigeon", *QUICK], "no transport 'pigeon'"),
        (["--num-envs", "1,few"], "'few' in '1,few' is no whole number"),
        (["--wait", "patient"], "'patient' is not one of adaptive, block, spin"),
        (["--rounds", "0"], "0 is not in the range"),
        (["--rates", "0"], "'0' in '0' is no whole number from 1"),
        (["tyo", "--between", "inproc", *QUICK], "no engine 'tyo'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], complaint: str) -> None:
    done = bench(*arguments)
    assert done.exit_code != 0
    assert complaint in done.output
    assert "Traceback" not in done.output


def test_the_suite_of_commands_runs_over_shared_memory_and_tells_its_targets(tmp_path: Path) -> None:
    done = bench(
        *("--suite", "commands", "--between", "inproc,shm", "--quick", "--check", "--json"),
        *("--report", str(tmp_path)),
    )
    found = json.loads(done.stdout)
    assert done.exit_code == int("FAIL" in {row["word"] for row in found["targets"]})
    kinds = {row["kind"] for row in found["rows"] if row["path"] == "shm"}
    assert kinds == {"unary", "stream", "images", "bytes"}
    assert {row["word"] for row in found["targets"]} <= {"NO VERDICT", "NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000
    assert (tmp_path / "report.md").read_text().startswith("## Commands, streams and images\n")


def test_the_suite_of_stubs_measures_grpc_over_tcp_and_a_unix_socket(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = bench(
        *("--suite", "stubs", "--between", "grpc", "--quick", "--check", "--json"), *("--report", str(tmp_path))
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    cells = [cell for case in cases_of(plan_of_stubs(("grpc",), None, rounds=1, quick=True)) for cell in case.cells]
    rows = {(row["path"], row["kind"], row["what"], row["size"], row["rate_hz"]): row for row in found["rows"]}
    assert rows.keys() == {(cell.path, cell.kind, cell.what, cell.size, cell.rate_hz) for cell in cells}
    assert {path for path, *_ in rows} == {"grpc-tcp", "grpc-unix"}
    assert {kind for _, kind, *_ in rows} >= {"unary", "stream", "callers", "aio", "bytes", "program"}
    assert [row for row in rows.values() if not row["n"]] == []
    assert {row["kind"] for row in rows.values() if row["cpu_us_each"]["engine"] is None} == {"program"}
    assert {row["word"] for row in found["targets"]} == {"NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000


@pytest.mark.parametrize("suite", ["commands", "stubs"])
@pytest.mark.parametrize(
    "arguments",
    [["toy:copy"], ["--num-envs", "2"], ["--rates", "9"]],
)
def test_a_suite_of_calls_has_an_engine_of_its_own(suite: str, arguments: list[str]) -> None:
    done = bench("--suite", suite, *arguments)
    assert done.exit_code == 2
    assert "leave out ENGINE, --num-envs" in done.output
