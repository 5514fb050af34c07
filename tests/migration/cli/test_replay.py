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
from lucky_transport_migration.recording.entries import Header, line_of
from lucky_transport_migration.recording.reading import Recording
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


def test_a_difference_is_shown_and_the_exit_code_is_one(run: Path) -> None:
    with lucky_transport.serve("toy:idle", f"inproc://{unique_name()}", num_envs=2) as other:
        done = replay(run, str(other.endpoints[0]))
    assert done.exit_code == 1
    assert "DIFFERENT: /hazel.rpc.AgentService/Step" in done.output
    assert "exchange 1: observation[env 0][0]: recorded " in done.output


def test_another_batch_and_a_file_that_is_no_recording_are_errors_with_remedies(run: Path, tmp_path: Path) -> None:
    with lucky_transport.serve("toy", f"inproc://{unique_name()}", num_envs=3) as other:
        done = replay(run, str(other.endpoints[0]))
        assert done.exit_code == 1
        assert "recorded with num_envs 2, the engine has 3; start one like it" in done.output
        (tmp_path / "notes.txt").write_text("hello\n")
        done = replay(tmp_path / "notes.txt", str(other.endpoints[0]))
    assert done.exit_code == 1
    assert "notes.txt is no recording; make one with `lucky-transport record`" in done.output


def test_a_damaged_recording_is_an_error_and_a_torn_one_is_incomplete(run: Path, fresh: str, tmp_path: Path) -> None:
    whole = run.read_bytes()
    at = len(whole) * 2 // 3
    torn, damaged = tmp_path / "torn.jsonl.gz", tmp_path / "damaged.jsonl.gz"
    damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
    torn.write_bytes(whole[:at])
    done = replay(damaged, fresh)
    assert done.exit_code == 1
    assert "EQUAL" not in done.output
    assert "damaged.jsonl.gz: line " in done.output
    done = replay(torn, fresh)
    assert done.exit_code == 1
    assert "INCOMPLETE: " in done.output
    assert "the recording ends in the middle of an entry" in done.output


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
def test_a_program_that_is_not_there_ends_as_in_a_shell(tmp_path: Path) -> None:
    done = record("shm://demo", "--out", tmp_path / "run.jsonl", "--", "no-such-program")
    assert done.returncode == 127
    assert "'no-such-program' cannot be run" in done.stderr
