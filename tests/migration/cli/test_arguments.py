"""Values of the command line: what is right is parsed, what is wrong is named; and one whole comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lucky_transport.cli.main import cli
from lucky_transport_migration.cli.arguments import JSON_OBJECT, METADATA, NAMES, NUMBERS, choices
from lucky_transport_migration.cli.parity import parity


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


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("authorization=Bearer a=b", ("authorization", "Bearer a=b")),
        ("team=", ("team", "")),
        ("authorization=$TOKEN", ("authorization", "from the environment")),
        ("authorization=@token", ("authorization", "from a file")),
        ("key-bin=AAE=", ("key-bin", b"\0\1")),
        ("key-bin=AAE", ("key-bin", b"\0\1")),
        ("key-bin=$BYTES", ("key-bin", b"\0\1")),
        ("key-bin=@raw", ("key-bin", b"\xff\n")),
    ],
)
def test_metadata_are_given_as_text_a_file_or_a_variable(
    text: str, pair: tuple[str, str | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "from the environment")
    monkeypatch.setenv("BYTES", "AAE=")
    (tmp_path / "token").write_text("from a file\n")
    (tmp_path / "raw").write_bytes(b"\xff\n")
    assert METADATA.convert(text, None, None) == pair


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hush-hush", "KEY=VALUE, KEY=@FILE or KEY=\\$VARIABLE"),
        ("authorization=$LUCKY_NO_SUCH", "authorization: no variable 'LUCKY_NO_SUCH' in the environment"),
        ("authorization=@no/such/file", "authorization: .*No such file or directory: 'no/such/file'"),
        ("Authorization=hush-hush", "'Authorization' is no key of metadata"),
        ("=hush-hush", "'' is no key of metadata"),
        ("grpc-timeout=hush-hush", "'grpc-timeout' is no key of metadata"),
        ("authorization=hush-hush\xe9", "authorization: its value is no printable ASCII; .* -bin"),
        ("authorization=hush-hush\n", "authorization: its value is no printable ASCII"),
        ("key-bin=hush-hush", "key-bin: its value is no base64"),
    ],
)
def test_wrong_metadata_are_named_and_no_value_is_shown(text: str, complaint: str) -> None:
    with pytest.raises(click.BadParameter, match=complaint) as caught:
        METADATA.convert(text, None, None)
    assert "hush" not in str(caught.value)


def test_one_pattern_of_methods_is_taken_and_several_are_refused() -> None:
    done = CliRunner().invoke(parity, ["--method", "*/GetEntity", "--method", "*/ListEntities"])
    assert done.exit_code == 2
    assert "2 patterns; give one that fits all" in done.output


def test_parity_of_twenty_steps_is_equal(twin: str) -> None:
    sizes = ("--num-envs", "2", "--steps", "20", "--suite", "step")
    done = CliRunner().invoke(cli, ["parity", "toy", "--between", f"inproc,{twin}", *sizes, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["equal"], found["compared"]["steps"]) == (True, 40)
