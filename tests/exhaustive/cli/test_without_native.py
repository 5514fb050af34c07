"""Where the native module was not built, each command starts, and says so with the remedy where it needs the module."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport.process import unique_name
from lucky_transport.shm.segment import segment

Hidden = Callable[..., "subprocess.CompletedProcess[str]"]
MakeSegment = Callable[..., segment.Segment]

REMEDY = "the native module was not built; run the install command again"
_WITHOUT = """
import sys
sys.modules["lucky_transport._native"] = None
from lucky_transport.cli.main import main
main()
"""


@pytest.fixture
def hidden(environ: dict[str, str], tmp_path: Path) -> Hidden:
    """Run the command line in a process that cannot import the native module."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command, environment = [sys.executable, "-c", _WITHOUT, *arguments], {**environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        return done

    return run


def test_help_is_shown(hidden: Hidden) -> None:
    done = hidden("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "serve" in done.stdout


def test_a_line_is_completed(hidden: Hidden) -> None:
    line = "lucky-transport serve to"
    point = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_WORDS": line, "COMP_CWORD": "2"}
    done = hidden(_LUCKY_TRANSPORT_COMPLETE="bash_complete", COMP_WORDBREAKS=":=", **point)
    assert (done.returncode, done.stderr) == (0, "")
    assert "plain,toy" in done.stdout.splitlines()


def test_the_script_for_a_shell_is_printed(hidden: Hidden) -> None:
    done = hidden("completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    assert "complete" in done.stdout


def test_ls_lists_what_is_installed_and_fails_at_a_segment(hidden: Hidden, make_segment: MakeSegment) -> None:
    make_segment()
    for kind in ("transports", "commands"):
        done = hidden("ls", kind)
        assert (done.returncode, done.stderr) == (0, "")
        assert kind.capitalize() in done.stdout.splitlines()
    done = hidden("ls")
    assert (done.returncode, done.stderr) == (1, f"Error: {REMEDY}\n")


def test_doctor_says_what_is_missing_and_what_to_do(hidden: Hidden) -> None:
    done = hidden("doctor")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["native", "module", "fail", "the", "native", "module", "was", "not", "built"] in rows
    assert ["native", "module", "fail", "run", "the", "install", "command", "again"] in rows


def test_an_engine_is_not_served_without_it(hidden: Hidden) -> None:
    done = hidden("serve", "toy", "--endpoint", f"shm://{unique_name()}")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {REMEDY}\n")


def test_a_segment_is_not_read_without_it(hidden: Hidden, make_segment: MakeSegment) -> None:
    done = hidden("inspect", f"shm://{make_segment().name}")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {REMEDY}\n")
