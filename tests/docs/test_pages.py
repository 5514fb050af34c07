"""Tables, links, limits and commands of the pages are what the code has, and every example runs as it stands."""

import ast
import asyncio
import gc
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import pytest

import lucky_transport
from lucky_transport import errors
from lucky_transport.cli.main import cli
from lucky_transport.config import Settings
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.shm.segment.layout import plan
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.transport import Capabilities
from tests.support.command import invoke, python, stdout_of
from tests.support.pages import DOCS, README, ROOT, Block, blocks, name_of, pages, shell_lines, table

REFERENCE = DOCS / "reference"
TRANSPORTS = REFERENCE / "transports.md"


def test_every_setting_is_listed_with_its_variable_and_default() -> None:
    shown = table(REFERENCE / "settings.md", "setting")
    expected = {one.name: one for one in fields(Settings) if one.name != "sources"}
    assert list(shown) == list(expected)
    for name, (variable, default, _) in shown.items():
        assert variable == f"LUCKY_{name.upper()}"
        value: Any = expected[name].default
        value = " ".join(value) if isinstance(value, tuple) else value
        assert default == (str(int(value)) if isinstance(value, bool | int | float) else value)


def test_every_scheme_has_an_example_endpoint_of_its_transport() -> None:
    shown = {
        endpoint.partition(":")[0]: cells[0]
        for endpoint, cells in table(REFERENCE / "endpoints.md", "endpoint").items()
    }
    assert shown == {scheme: info.name for info in registry().transports.values() for scheme in info.schemes}


def test_every_command_is_listed() -> None:
    shown = table(REFERENCE / "commands.md", "command")
    assert {command.split()[1] for command in shown} == set(registry().commands)


def test_every_engine_is_listed_with_its_summary() -> None:
    shown = table(REFERENCE / "engines.md", "engine")
    for name, info in registry().engines.items():
        rows = {engine: cells for engine, cells in shown.items() if engine.partition(":")[0] == name}
        assert rows, f"engine {name} is missing"
        for variant in info.variants:
            assert rows[f"{name}:{variant}"] == [info.summary] or name == "toy"  # which has a sentence for each


def test_every_error_is_listed_with_the_builtin_it_is() -> None:
    shown = table(REFERENCE / "errors.md", "error")
    assert set(shown) == {kind.__name__ for kind in errors.TransportError.__subclasses__()}
    for name, (builtin, _, _) in shown.items():
        parents = getattr(errors, name).__mro__
        assert builtin in [parent.__name__ for parent in parents if parent.__module__ == "builtins"]


def test_the_parts_of_a_segment_are_listed_in_their_order() -> None:
    spec = BatchSpec("toy", 1, ArraySpec(shape=(1,)), ArraySpec(shape=(1,)))
    header, *regions = table(REFERENCE / "segment.md", "part")
    assert header == "header (4096 bytes)"
    assert regions == list(plan(spec).regions)


def test_every_autoreset_mode_is_explained() -> None:
    from gymnasium.vector import AutoresetMode

    shown = table(DOCS / "how-to" / "autoreset.md", "mode")
    assert {mode.removesuffix(" (default)") for mode in shown} == {mode.value for mode in AutoresetMode}


@pytest.mark.parametrize("name", sorted(name for name, info in registry().transports.items() if info.local_endpoint))
def test_the_capabilities_shown_are_those_the_transport_declares(name: str) -> None:
    needed = {"grpc": "grpc", "openra": "grpc"}
    if name in needed:
        pytest.importorskip(needed[name])
    endpoint = registry().transports[name].local_endpoint.format(name=unique_name())
    with (
        lucky_transport.serve("toy", endpoint, options={"parallel_envs": 1}) as serving,
        lucky_transport.connect(str(serving.endpoints[0])) as client,
    ):
        declared = client.transport.capabilities
    check_capabilities(name, declared)


def test_the_capabilities_shown_of_holodeck_are_those_of_its_client() -> None:
    pytest.importorskip("posix_ipc")
    from lucky_transport_holodeck.client import WorldTransport

    check_capabilities("holodeck", WorldTransport.capabilities)


def test_every_capability_is_explained() -> None:
    explained = ", ".join(table(TRANSPORTS, "capability")).split(", ")
    assert sorted(explained) == sorted(one.name for one in fields(Capabilities))


def check_capabilities(name: str, declared: Capabilities) -> None:
    lines = TRANSPORTS.read_text(encoding="utf-8").splitlines()
    header = next(line for line in lines if line.startswith("| transport | lockstep |"))
    columns = [cell.strip() for cell in header.strip("|").split("|")][1:]
    assert columns == [one.name for one in fields(Capabilities)]
    assert table(TRANSPORTS, "transport")[name] == ["yes" if getattr(declared, column) else "no" for column in columns]


def test_the_short_table_of_engines_in_other_languages_says_what_the_long_one_says() -> None:
    short, long = table(README, "engine"), table(DOCS / "explanation" / "performance.md", "engine")
    assert list(short) == list(long)
    for engine, cells in short.items():
        assert set(cells) <= set(long[engine]), engine


LINKING = [
    *pages(),
    *(ROOT / name for name in ("CHANGELOG.md", "proto/README.md")),
    *sorted((ROOT / "lucky_transport").rglob("*.md")),
    *sorted((ROOT / "migration").rglob("*.md")),
    *sorted((ROOT / "plugins").rglob("*.md")),
    *sorted((ROOT / "schema").rglob("*.md")),
]


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_every_link_to_a_file_or_heading_leads_there(page: Path) -> None:
    text = re.sub(r"```.*?^ *```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        path = (page.parent / target) if target else page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in headings(path), f"{target}#{anchor}"


#: Page -> module, name of the limit there, and the sentence that says it.
LIMITS = {
    "docs/reference/limits.md": [
        ("lucky_transport.shm.listener.listener", "MAX_CLIENTS", "takes {:,} clients at once"),
        ("lucky_transport.rpc.server", "MAX_CALLS", "while {:,} others of its connection"),
        ("lucky_transport_stubs.client.subchannel", "MOST_CALLS", "another connection for calls beyond {}"),
    ],
    "plugins/lucky_transport_stubs/README.md": [
        ("lucky_transport.rpc.server", "MAX_CALLS", "takes {:,} calls at a time"),
        ("lucky_transport_stubs.words.status", "MOST_BYTES", "have {:,} bytes"),
    ],
    "docs/how-to/typed-calls.md": [
        ("lucky_transport.deadline", "NOTICE_AFTER_S", "more than {:g} s for an engine"),
    ],
    "docs/how-to/sessions.md": [
        ("lucky_transport.sessions.session", "SessionLimits.sessions", "holds up to {:,} ind"),
        ("lucky_transport.sessions.session", "SessionLimits.idle_s", "it was idle for {:g} s"),
        ("lucky_transport.sessions.batch_advance", "MAX_IN_FLIGHT", "sends up to {} requests"),
    ],
    "docs/how-to/top.md": [
        ("lucky_transport_migration.top.activity", "_HUNG_S", "not looked at its segment for {:g} s"),
    ],
    "plugins/lucky_transport_grpc/README.md": [
        ("lucky_transport.host.driver_lease", "IDLE_S", "none has called for {:g} s"),
        ("lucky_transport_grpc.services", "MAX_STREAMS", "A server serves {} of"),
        ("lucky_transport_grpc.streams", "KEPT", "it keeps the {} newest items"),
        ("lucky_transport_grpc.agent_exchange", "_WINDOW", "at once, {} at most"),
    ],
    "plugins/lucky_transport_stubs/RUN.md": [
        ("lucky_transport_migration.routing.router", "_THREADS", "threads of its own ({} a process)"),
        ("lucky_transport_migration.routing.router", "_ROOM", "when {} are waiting or under way"),
    ],
    "docs/reference/evidence.md": [
        ("lucky_transport_migration.evidence.evidence_queue", "_ROOM", "At most {:,} calls and"),
    ],
    "docs/how-to/record-and-replay.md": [
        ("lucky_transport_migration.recording.entries", "KEPT_ITEMS", "Of a stream the first {} items"),
    ],
}


@pytest.mark.parametrize(
    ("page", "module", "name", "sentence"), [(page, *limit) for page, limits in LIMITS.items() for limit in limits]
)
def test_a_page_names_the_limit_that_is_in_force(page: str, module: str, name: str, sentence: str) -> None:
    if "grpc" in module or "stubs" in module:
        pytest.importorskip("grpc")
    owner, _, field = name.rpartition(".")
    holder: Any = importlib.import_module(module)
    limit = getattr(attrgetter(owner)(holder)() if owner else holder, field)
    assert sentence.format(limit) in " ".join((ROOT / page).read_text(encoding="utf-8").split())


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


# --- every example in Python and every quick command, page by page, with the engines of the page ---


pytestmark = pytest.mark.usefixtures("forked_engines")

#: Commands that are over in a second; they may answer no (exit code 1). All others are parsed.
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
    stdout_of(python("-m", "pyright", "--pythonpath", sys.executable, "--project", tmp_path, timeout=550))
