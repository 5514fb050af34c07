"""`lucky-transport bench` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli

QUICK = ("--quick", "--num-envs", "2", "--obs-size", "6", "--act-size", "2")


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments])


def test_json_has_environment_rows_and_ratios(tmp_path: Path) -> None:
    done = bench("--transports", "inproc,shm", *QUICK, "--check", "--json", "--report", str(tmp_path))
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"environment", "rows", "ratios", "notes", "targets"} <= set(found)
    steps = [row for row in found["rows"] if row["suite"] == "step"]
    assert {(row["path"], row["num_envs"]) for row in steps} >= {(p, n) for p in ("inproc", "shm") for n in (2,)}
    assert {row["level"] for row in steps} == {"transport", "env"}
    assert {row["wait"] for row in steps if row["path"] == "shm"} == {"adaptive"}
    assert {row["word"] for row in found["targets"]} <= {"PASS", "FAIL", "NOT MEASURED"}
    assert found["reference"] == "shm"
    written = json.loads((tmp_path / "bench.json").read_text())
    assert len(written["rows"]) == len(found["rows"])
    assert (tmp_path / "bench.html").stat().st_size > 10_000


def test_people_get_sentences_tables_and_notes() -> None:
    done = bench("--transports", "inproc", *QUICK, "--check")
    assert done.exit_code == 0, done.output
    assert "2 envs: one exchange" in done.output
    assert "NOT MEASURED" in done.output
    assert "p50 is the median over rounds" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--transports", "inproc,pigeon", *QUICK], "no transport 'pigeon'"),
        (["--num-envs", "1,few"], "'few' in '1,few' is no whole number"),
        (["--wait", "patient"], "'patient' is not one of adaptive, block, spin"),
        (["--rounds", "0"], "0 is not in the range"),
        (["--obs-size", "x"], "'x' is not a valid integer"),
        (["tyo", "--transports", "inproc", *QUICK], "no engine 'tyo'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], complaint: str) -> None:
    done = bench(*arguments)
    assert done.exit_code != 0
    assert complaint in done.output
    assert "Traceback" not in done.output


def test_the_suite_of_commands_runs_over_shared_memory_and_tells_its_targets(tmp_path: Path) -> None:
    done = bench(
        *("--suite", "commands", "--transports", "inproc,shm", "--quick", "--check", "--json"),
        *("--report", str(tmp_path)),
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    kinds = {row["kind"] for row in found["rows"] if row["path"] == "shm"}
    assert kinds == {"unary", "stream", "images", "training", "codec"}
    assert {row["word"] for row in found["targets"]} <= {"PASS", "FAIL", "NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000
    assert (tmp_path / "bench.md").read_text().startswith("## Commands, streams and images\n")


def test_the_suite_of_stubs_measures_grpc_over_tcp_and_a_unix_socket(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = bench(
        *("--suite", "stubs", "--transports", "grpc", "--quick", "--check", "--json"), *("--report", str(tmp_path))
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {row["path"] for row in found["rows"]} == {"grpc-tcp", "grpc-unix"}
    assert {row["kind"] for row in found["rows"]} >= {"unary", "stream", "callers", "aio"}
    assert {row["word"] for row in found["targets"]} == {"NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000


def test_the_suite_of_stubs_refuses_a_transport_that_carries_none() -> None:
    done = bench("--suite", "stubs", "--transports", "inproc")
    assert done.exit_code != 0
    assert "transport 'inproc' carries no calls of gRPC stubs" in done.output
    assert "Traceback" not in done.output


def test_the_suite_of_commands_is_told_in_tables_and_sentences() -> None:
    done = bench("--suite", "commands", "--transports", "inproc", "--quick", "--check")
    assert done.exit_code == 0, done.output
    assert "small typed call, handler inline" in done.output
    assert "NOT MEASURED" in done.output


@pytest.mark.parametrize("suite", ["commands", "stubs"])
@pytest.mark.parametrize("arguments", [["toy:copy"], ["--num-envs", "2"]])
def test_a_suite_of_calls_has_an_engine_of_its_own(suite: str, arguments: list[str]) -> None:
    done = bench("--suite", suite, *arguments)
    assert done.exit_code == 2
    assert "leave out ENGINE and --num-envs" in done.output
