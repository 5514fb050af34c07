"""`lucky-transport ls`: what is installed, whether it works, and what runs here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport.cli.main import cli
from lucky_transport.registry import registry
from lucky_transport.shm.segment import segment
from lucky_transport.version import install_command

MakeSegment = Callable[..., segment.Segment]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def listing() -> dict[str, Any]:
    shown = CliRunner().invoke(cli, ["ls", "--json"])
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.output)


@pytest.mark.parametrize("kind", ["transports", "engines", "commands"])
def test_everything_that_is_registered_is_listed_with_its_summary(kind: str) -> None:
    table = getattr(registry(), kind)
    listed = {item["name"]: item["summary"] for item in listing()[kind]}
    assert listed == {name: info.summary for name, info in table.items()}


def test_what_needs_nothing_is_usable() -> None:
    by_name = {item["name"]: item for kind in ("transports", "engines", "commands") for item in listing()[kind]}
    for name in ("inproc", "toy", "serve", "ls", "inspect", "doctor"):
        assert by_name[name]["loadable"] is True
        assert by_name[name]["problem"] == ""


@pytest.mark.exhaustive
def test_a_transport_whose_package_is_missing_says_what_to_install(run: Run, tmp_path: Any) -> None:
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    done = run("ls", "--json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    grpc = next(item for item in json.loads(done.stdout)["transports"] if item["name"] == "grpc")
    assert grpc["loadable"] is False
    assert install_command("grpc") in grpc["problem"]


def test_a_running_segment_is_listed_with_its_processes(make_segment: MakeSegment) -> None:
    made = make_segment(num_envs=5)
    listed = {one["name"]: one for one in listing()["segments"]}
    assert listed[made.name] == {
        "name": made.name,
        "path": str(made.path),
        "size_bytes": made.layout.total_size,
        "num_envs": 5,
        "engine_pid": os.getpid(),
        "client_pid": 0,
        "engine": f"pid {os.getpid()}",
        "client": "",
        "frame_seq": 0,
        "stale": False,
        "stopped": False,
    }


@pytest.mark.exhaustive
def test_people_get_the_same_as_tables(run: Run, make_segment: MakeSegment) -> None:
    made = make_segment()
    for kind in ("transports", "engines", "commands"):
        lines = run("ls", kind).stdout.splitlines()
        assert lines[0] == kind.capitalize()
        assert {item["name"] for item in listing()[kind]} <= {line.split()[0] for line in lines if line}
    done = run("ls")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Segments on this host"
    assert "Servers on this host" in done.stdout.splitlines()
    row = next(line for line in done.stdout.splitlines() if line.split()[:1] == [made.name])
    assert str(os.getpid()) in row
    assert row.endswith("ok")
