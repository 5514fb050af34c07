"""Commands: those of `lucky-transport` in this process, and programs in one of their own."""

import json
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli
from tests.support.waiting import PATIENCE_S


def invoke(*arguments: str, **given: Any) -> Result:
    """Return what came of `lucky-transport ARGUMENTS...`; given: as `CliRunner.invoke` takes it."""
    return CliRunner().invoke(cli, arguments, **given)


def output_of(done: Result, status: int = 0) -> str:
    """Return what a command printed that has to end with this status."""
    assert done.exit_code == status, done.output
    return done.output


def json_of(done: Result, status: int = 0) -> Any:
    """Return the same of one that printed JSON."""
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def execute(*command: object, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; given: as `subprocess.run` takes it."""
    usual = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "check": False}
    return subprocess.run([*map(str, command)], **usual | given)


def python(*arguments: object, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python to its end; given: as `subprocess.run` takes it."""
    return execute(sys.executable, *arguments, **given)


def stdout_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program printed that has to end with status 0."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
