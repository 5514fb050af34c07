"""JSON and TOML that is nested too deeply: every reader of such texts refuses it as it refuses any malformed one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from lucky_transport.cli.serve import options_of
from lucky_transport.config import load_settings, load_table
from lucky_transport.engine_options import requested_options
from lucky_transport.errors import ConfigError, SpecError
from lucky_transport.messages import SessionRecording, SetResetOptionsRequest
from lucky_transport.nesting import json_object, parse_json, parse_toml
from lucky_transport.sessions.recording import ReplayFactory
from lucky_transport.spec.batch_spec import BatchSpec

#: Just too deep; deep enough for a walk by recursion to fail and for a parser not to; far too deep for any parser.
DEPTHS = [65, 400, 900, 100_000]


def _list(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def _object(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("nest", [_list, _object])
@pytest.mark.parametrize("depth", DEPTHS)
def test_json_that_is_nested_too_deeply_is_a_value_error(depth: int, nest: Callable[[int], str]) -> None:
    for text in (nest(depth), nest(depth).encode()):
        with pytest.raises(ValueError, match="nested deeper than 64 levels"):
            parse_json(text)


@pytest.mark.parametrize("nest", [_list, _object])
def test_json_of_64_levels_and_of_many_values_is_read(nest: Callable[[int], str]) -> None:
    for text in (nest(64), json.dumps([[{}, []]] * 1000)):
        assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize("text", [lambda depth: f"a = {_list(depth)}", lambda depth: f"{'.'.join('a' * depth)} = 1"])
@pytest.mark.parametrize("depth", DEPTHS[:-1])
def test_toml_that_is_nested_too_deeply_is_a_value_error(depth: int, text: Callable[[int], str]) -> None:
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        parse_toml(text(depth))


#: What reads a JSON object of others -> the error with which it refuses one.
READERS: dict[str, tuple[Callable[[str], Any], type[Exception]]] = {
    "reset options": (lambda text: requested_options(SetResetOptionsRequest(None, text)), SpecError),
    "recorded session": (
        lambda text: ReplayFactory(None, "toy", SessionRecording(options_json=text)),  # type: ignore[arg-type]
        SpecError,
    ),
    "handshake": (BatchSpec.from_json, SpecError),
    "any options": (lambda text: json_object(text, "options"), SpecError),
    "command line": (options_of, click.BadParameter),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_json_refuses_what_is_nested_too_deeply(reader: str, depth: int) -> None:
    read, refusal = READERS[reader]
    with pytest.raises(refusal, match="64 levels") as refused:
        read(_object(depth))
    assert len(str(refused.value)) < 1000 or reader in ("command line",)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_file_of_settings_that_is_nested_too_deeply_is_named(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "lucky_transport.toml"
    path.write_text(f"a = {_list(depth)}")
    for load in (lambda: load_settings(environ={}, directory=tmp_path), lambda: load_table("stages", tmp_path)):
        with pytest.raises(ConfigError, match=f"{path}: nested deeper than 64 levels; mend the file"):
            load()
