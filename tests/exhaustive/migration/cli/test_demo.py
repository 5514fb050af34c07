"""`lucky-transport demo` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli


def demo(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *arguments])


def test_the_toy_engine_is_equal_and_a_report_is_written(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = demo("--engine", "toy", "--num-envs", "3", "--steps", "30", "--report", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["engine"] == "toy"
    assert found["options"] == {"num_envs": 3, "steps": 30, "seed": 0}
    assert found["parity"]["equal"] is True
    assert {"grpc", "shm"} <= {row["path"] for row in found["rows"]}
    assert all(one["ratio"] > 0 for one in found["ratios"])
    assert '"hdr":' not in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"demo.html", "demo.json", "report.md"}
    _, _, top = (tmp_path / "out" / "demo.html").read_text().partition('<div class="verdict">')
    first, _, rest = top.partition("</p>")
    assert f"{found['verdict']['word']}</span> " in first, "the page begins with its answer"
    assert "EQUAL</span>" in rest.partition("</div>")[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "mujocoo"], "no engine 'mujocoo'; did you mean 'mujoco'?"),
        (["--num-envs", "0"], "0 is not in the range"),
        (["--steps", "-1"], "-1 is not in the range"),
        (["--train", "--num-envs", "8"], "--num-envs and --train exclude each other"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = demo(*arguments, "--report", str(tmp_path))
    assert done.exit_code != 0
    assert complaint in done.output
    assert not list(tmp_path.iterdir())
