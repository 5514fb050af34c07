"""Every example in Python and every quick command runs as it stands, page by page, with the engines of the page."""

import ast
import asyncio
import gc
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

import lucky_transport
from lucky_transport.cli.main import cli
from lucky_transport.process import unique_name
from tests.support.command import invoke
from tests.support.pages import DOCS, README, ROOT, Block, blocks, name_of, pages, shell_lines

pytestmark = pytest.mark.usefixtures("forked_engines")

#: Commands that are over in a second; they may answer no (exit code 1). All others are parsed, in test_tables.py.
QUICK = ("export-holodeck", "export-libenv", "gate", "inspect", "ls", "scan", "signoff", "stage")

TYPED_CALLS = DOCS / "how-to" / "typed-calls.md"


class Reading:
    """What a reader has who types a page from the top: engines that run, and a namespace for each file or prompt.

    Endpoints get names of their own, so that pages can be read at the same time.
    """

    def __init__(self, page: Path, stack: ExitStack) -> None:
        self._python = "".join(block.text for block in blocks(page, "python"))
        self._stack = stack
        self._names: dict[str, str] = {}
        self.namespace: dict[str, Any] = {"__name__": "__main__"}

    def type(self, block: Block) -> None:
        """Do what a block says."""
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            code = compile("\n" * block.line + self.renamed(block.text), block.place, "exec")
            exec(code, self.namespace)
        elif block.language == "sh":
            for line in shell_lines(block.text):
                self._type_command(line.partition(" | ")[0])

    def renamed(self, text: str) -> str:
        """Return `text` with endpoints of this reading in place of those shown."""
        return re.sub(r"shm://(\w+)", lambda found: f"shm://{self._name(found[1])}", text)

    def _name(self, shown: str) -> str:
        return self._names.setdefault(shown, unique_name())

    def _type_command(self, line: str) -> None:
        program, *arguments = shlex.split(line)
        if program != "lucky-transport":
            return
        name, *arguments = arguments
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if name in QUICK:
            said = invoke(name, *arguments, input="n\n")
            assert said.exit_code in (0, 1), f"{line}\n{said.output}"
            assert isinstance(said.exception, SystemExit | None), line
        if name == "serve":
            options = command.make_context(name, arguments).params
            endpoints = [endpoint for endpoint in options["endpoints"] if f'"{endpoint}"' in self._python]
            if endpoints:
                self._serve(options, [self.renamed(endpoint) for endpoint in endpoints])

    def _serve(self, options: Mapping[str, Any], endpoints: list[str]) -> None:
        serving = lucky_transport.serve(
            options["engine"],
            endpoints,
            num_envs=options["num_envs"],
            seed=options["seed"],
            options=json.loads(options["options"]),
            observation_slots=options["observation_slots"],
        )
        self._stack.enter_context(serving)


def missing(page: Path) -> str:
    """Return the name of a package or program that a page's examples need and this environment lacks, or ""."""
    if any("export-libenv" in block.text for block in blocks(page, "sh")) and not shutil.which("cc"):
        return "cc"
    if any("mujoco:" in block.text for block in blocks(page, "python", "sh")) and not installed("mujoco"):
        return "mujoco"
    for block in blocks(page, "python"):
        needed = re.findall(r"# needs (\w+)", block.text)
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.Import):
                needed += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                needed.append(node.module)
        for name in needed:
            if not installed(name.partition(".")[0]) and not (page.parent / f"{name}.py").exists():
                return name
    return "grpc" if "lucky_transport_stubs" in page.read_text("utf-8") and not installed("grpc") else ""


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def batch_is_stepped(reading: Reading) -> None:
    """README's first example steps a batch, and its second one sees an image."""
    assert reading.namespace["rewards"].shape == (16,)
    assert len(reading.namespace["frame"].data) == 320 * 240 * 4


def calls_are_answered(reading: Reading) -> None:
    """The examples of typed calls get what they ask for."""
    assert len(reading.namespace["frame"].data) == 320 * 240 * 4
    _, state, observed = asyncio.run(reading.namespace["watch"](reading.renamed("shm://demo")))
    assert len(state.positions) == len(observed) == 19


#: Page -> what its examples must have come to.
RESULTS = {README: batch_is_stepped, TYPED_CALLS: calls_are_answered}

#: Pages with something to type, which is not only saved as a file.
WITH_EXAMPLES = [page for page in pages() if any(not block.title for block in blocks(page, "python", "sh"))]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_run_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if package := missing(page):
        pytest.skip(f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import grpc\n", encoding="utf-8")  # the reader's own
    with ExitStack() as stack:
        reading = Reading(page, stack)
        for block in blocks(page):
            reading.type(block)
        if page in RESULTS:
            RESULTS[page](reading)
        reading.namespace.clear()
        gc.collect()  # what an example leaves open ends with it


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_of_a_kind_that_is_tested_or_marked_as_text(page: Path) -> None:
    for block in blocks(page):
        assert block.language in ("python", "sh", "toml", "json", "text"), block.place
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "python":
            ast.parse(block.text)
    prose = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^::: .*\n(?:    .*\n)*", "", prose, flags=re.MULTILINE)  # what mkdocstrings puts in, and how
    assert re.findall(r"^    \S.*$", prose, re.MULTILINE) == [], "code by indentation is run by no test: fence it"


@pytest.mark.parametrize("block", blocks(README, "python"), ids=lambda block: block.place)
def test_an_example_of_the_readme_imports_what_it_uses(block: Block) -> None:
    for module in ("lucky_transport", "lucky_transport_stubs", "asyncio"):
        if f"{module}." in block.text:
            assert f"import {module}\n" in block.text


@pytest.mark.parametrize("page", [page for page in pages() if "tutorials" not in page.parts], ids=name_of)
def test_an_engine_that_an_example_calls_is_served_further_up_and_once(page: Path) -> None:
    """Typed from top to bottom, no example waits for an engine that nothing has started."""
    served: list[str] = []
    for block in blocks(page, "python", "sh"):
        if block.language == "sh":
            served += re.findall(r"^lucky-transport serve .*?(shm://\w+)", block.text, re.MULTILINE)
        for endpoint in re.findall(r"connect(?:_async)?\(\"(shm://\w+)\"|run\(watch\(\"(shm://\w+)\"", block.text):
            assert set(served).issuperset(filter(None, endpoint)), f"nothing serves {endpoint} before {block.place}"
    assert len(served) == len(set(served)), served


@pytest.mark.exhaustive
def test_the_examples_of_typed_calls_pass_strict_type_checking(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed: pip install 'lucky-transport[dev]'")
    programs = [block.text for page in (README, TYPED_CALLS) for block in blocks(page, "python")]
    assert len(programs) >= 5
    for number, program in enumerate(programs):
        text = program if "import lucky_transport\n" in program else f"import lucky_transport\n\n{program}"
        (tmp_path / f"program_{number}.py").write_text(text, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
