"""What the documentation says to type can be typed: commands, options, files, modules, extras, variables."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from lucky_transport.cli.main import cli
from lucky_transport.config import Settings
from lucky_transport.registry import registry
from tests.support.pages import DOCS, ROOT, Block, blocks, pages, shell_lines, table

#: Programs of the reader: no page shows what is in them.
READERS_OWN = {"client.py", "server.py", "train.py"}

SHELL = [block for page in [*pages(), ROOT / "plugins" / "README.md"] for block in blocks(page, "sh")]


def typed_lines() -> Iterator[str]:
    """Yield every `lucky-transport ...` that a reader could type, from the pages, the tables and all commands' help."""
    texts = [*(block.text for block in SHELL), *table(DOCS / "reference" / "commands.md", "command")]
    for name in registry().commands:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        texts += [command.epilog or "", command.help or "", cli.epilog or ""]
    for text in texts:
        for line in re.sub(r"\\\n\s*", "", text).splitlines():
            quoted = [found for found in re.findall(r"`([^`]*)`", line) if "lucky-transport " in found]
            for part in re.split(r" && | & ?", " && ".join(quoted or [line])):
                typed = part[part.find("lucky-transport ") :] if "lucky-transport " in part else ""
                typed = typed.partition(" #")[0].partition(" | ")[0].removesuffix("&").strip()
                if typed and (quoted or line.lstrip().startswith(("lucky-transport", "pip", "for "))):
                    yield typed


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the command lines shown name, as the present one, and their variable."""
    for folder in ("training", "before", "lucky-evidence"):
        (tmp_path / folder).mkdir()
    for file in ("run.jsonl.gz", "before/bench.json", "train.py", "key.der"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "secret")


@pytest.mark.usefixtures("project")
def test_every_command_line_that_is_shown_can_be_typed() -> None:
    for line in sorted(set(typed_lines())):
        _, name, *arguments = shlex.split(line)
        context = click.Context(cli, info_name="lucky-transport")
        command = cli.get_command(context, name)
        assert command is not None, line
        if not arguments:  # it may be the command's name within a sentence
            continue
        try:
            command.make_context(name, arguments, parent=context)  # parses only; nothing runs
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.place)
def test_what_a_shell_block_names_is_there(block: Block) -> None:
    files = {other.title for other in blocks(block.page) if other.title} | READERS_OWN
    variables = {f"LUCKY_{one.name.upper()}" for one in fields(Settings)}
    for line in shell_lines(block.text):
        words = shlex.split(line)
        for word in words:
            if word.startswith("LUCKY_"):
                assert word.partition("=")[0] in variables, line
        if "python" in words:
            program = words[words.index("python") + 1 :]
            if program[0] == "-m":
                assert importlib.util.find_spec(program[1]) is not None, line
            elif program[0].endswith(".py"):
                assert program[0] in files or (ROOT / program[0]).exists(), line


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_extra_that_a_page_tells_to_install_exists(page: Path) -> None:
    for named in re.findall(r"(?:lucky-transport|\.)\[([\w,-]+)\]'", page.read_text(encoding="utf-8")):
        assert set(named.split(",")) <= set(EXTRAS), named


def test_every_extra_is_listed() -> None:
    assert set(table(DOCS / "reference" / "extras.md", "extra")) == set(EXTRAS)
