"""`lucky-transport record` and `lucky-transport replay` as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import lucky_transport
from lucky_transport.cli.main import cli
from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.recording.entries import Header, Recording, line_of
from tests.support.waiting import PATIENCE_S

PROGRAM = """
import sys, lucky_transport
with lucky_transport.make() as env:
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(10):
        env.step(env.action_space.sample())
with lucky_transport.connect() as client:
    client.scene.list_entities()
sys.exit(7)
"""


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, arguments)])


def record(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lucky_transport", "record", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=dict(os.environ))


@pytest.fixture
def fresh() -> Iterator[str]:
    with lucky_transport.serve("toy", f"inproc://{unique_name()}", num_envs=2, seed=5) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a program that was recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    file = folder / "run.jsonl.gz"
    with lucky_transport.serve("toy", f"shm://{unique_name()}", num_envs=2, seed=5) as serving:
        program = (sys.executable, folder / "program.py")
        done = record(serving.endpoints[0], "--out", file, "--seed", "5", "--", *program)
    assert done.returncode == 7, done.stderr  # as the program says
    return file


@pytest.mark.exhaustive
def test_a_program_is_recorded_and_its_exit_status_is_its_own(run: Path) -> None:
    recording = Recording(run)
    assert (recording.header.engine, recording.header.transport, recording.header.seed) == ("toy", "shm", 5)
    assert len(list(recording.entries())) == 13


def test_a_recording_is_replayed_on_another_transport(run: Path, fresh: str, tmp_path: Path) -> None:
    done = replay(run, fresh, "--evidence", tmp_path / "seen", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["equal"] is True
    assert found["calls"] == found["compared"] == 13
    rows = list(read_folder(tmp_path / "seen"))
    assert [row.kind for row in rows] == ["replay"] * 13
    assert {row.primary.transport for row in rows} == {"shm"}
    assert all(row.at for row in rows)


def test_a_recording_without_a_call_needs_no_engine(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text(line_of(Header("grpc")))
    done = replay(empty, "shm://no_engine_here")
    assert done.exit_code == 1
    assert "NOTHING COMPARED" in done.output


@pytest.mark.exhaustive
def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    done = record("shm://demo", "--out", tmp_path / "run.jsonl", "--", "true")
    assert done.returncode == 1
    assert "is there already" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), (__file__, 126)])
def test_a_program_that_cannot_be_run_ends_as_in_a_shell(tmp_path: Path, program: str, status: int) -> None:
    done = record("shm://demo", "--out", tmp_path / "run.jsonl", "--", program)
    assert done.returncode == status
    assert f"{program!r} cannot be run" in done.stderr
