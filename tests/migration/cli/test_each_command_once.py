"""Each command that compares goes through once, in this process: all that it can is in tests/exhaustive."""

from __future__ import annotations

import json

from click.testing import CliRunner

from lucky_transport.cli.main import cli


def test_parity_of_twenty_steps_is_equal(twin: str) -> None:
    sizes = ("--num-envs", "2", "--steps", "20", "--suite", "step")
    done = CliRunner().invoke(cli, ["parity", "toy", "--between", f"inproc,{twin}", *sizes, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["equal"], found["compared"]["steps"]) == (True, 40)
