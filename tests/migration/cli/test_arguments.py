"""Values of the command line: what is right is parsed, what is wrong is named."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from lucky_transport_migration.cli.arguments import JSON_OBJECT, NAMES, NUMBERS, choices
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (NAMES, "grpc, shm", ("grpc", "shm")),
        (NUMBERS, "1,64, 4096", (1, 64, 4096)),
        (JSON_OBJECT, '{"a": 1}', {"a": 1}),
        (choices("spin", "block"), "block,spin", ("block", "spin")),
    ],
)
def test_a_right_value_is_parsed(kind: click.ParamType, text: str, value: Any) -> None:
    assert kind.convert(text, None, None) == value
    assert kind.convert(value, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (NAMES, "grpc,,shm", "empty name"),
        (NAMES, "shm,grpc,shm", "names 'shm' twice"),
        (NUMBERS, "1,many", "'many' in '1,many' is no whole number"),
        (NUMBERS, "0", "no whole number from 1"),
        (NUMBERS, "-4", "no whole number from 1"),
        (NUMBERS, "4,4", "names 4 twice"),
        (NUMBERS, "", "no whole number"),
        (JSON_OBJECT, "{", "is no JSON"),
        (JSON_OBJECT, "[1]", "is no JSON object"),
        (choices("spin", "block"), "spin,nap", "'nap' is not one of spin, block"),
    ],
)
def test_a_wrong_value_is_named(kind: click.ParamType, text: str, complaint: str) -> None:
    with pytest.raises(click.BadParameter, match=complaint):
        kind.convert(text, None, None)


@pytest.mark.parametrize("name", ["demo", "parity", "bench"])
def test_help_shows_an_example_and_the_exit_code_is_zero(name: str) -> None:
    from lucky_transport.cli.main import cli

    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0
    _, _, examples = done.output.partition("Example")
    assert f"lucky-transport {name} " in examples
    assert "--json" in done.output


def test_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from lucky_transport.cli.main import cli\n"
        "for name in ('demo', 'parity', 'bench'):\n"
        "    assert CliRunner().invoke(cli, [name, '--help']).exit_code == 0\n"
        "print([m for m in ('numpy', 'matplotlib', 'gymnasium', 'grpc', 'rich', 'mujoco') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.strip() == "[]"
