"""What the READMEs say is so: every table, command and piece of code in them is held against the program."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import lucky_transport
from lucky_transport import errors
from lucky_transport.cli.main import cli
from lucky_transport.config import Settings
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.shm.layout import plan
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.transport import Capabilities

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGINS_README = (ROOT / "plugins" / "README.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, list[str]]:
    """The table whose header row starts with `heading`: first cell -> the other cells, without backticks."""
    rows: dict[str, list[str]] = {}
    lines = iter(README.splitlines())
    header = next(line for line in lines if line.startswith(f"| {heading} |"))
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            break
        first, *others = (cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
        assert len(others) + 1 == header.count("|") - 1, line
        rows[first] = others
    return rows


def code_blocks(text: str, language: str) -> list[str]:
    """The contents of all fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# --- tables ---


def test_every_setting_is_listed_with_its_variable_and_default() -> None:
    shown = table("setting")
    expected = {one.name: one for one in fields(Settings) if one.name != "sources"}
    assert list(shown) == list(expected)
    for name, (variable, default, _) in shown.items():
        assert variable == f"LUCKY_{name.upper()}"
        value: Any = expected[name].default
        assert default == (str(int(value)) if isinstance(value, bool | int | float) else value)


def test_every_scheme_has_an_example_endpoint_of_its_transport() -> None:
    shown = {endpoint.partition(":")[0]: cells[0] for endpoint, cells in table("endpoint").items()}
    assert shown == {scheme: info.name for info in registry().transports.values() for scheme in info.schemes}


def test_every_command_is_listed() -> None:
    assert {command.split()[1] for command in table("command")} == set(registry().commands)


def test_every_engine_is_listed_with_its_summary() -> None:
    shown = table("engine")
    for name, info in registry().engines.items():
        rows = {engine: cells for engine, cells in shown.items() if engine.partition(":")[0] == name}
        assert rows, f"engine {name} is missing"
        for variant in info.variants:
            assert rows[f"{name}:{variant}"] == [info.summary]


def test_every_error_is_listed_with_the_builtin_it_is() -> None:
    shown = table("error")
    assert set(shown) == {kind.__name__ for kind in errors.TransportError.__subclasses__()}
    for name, (builtin, _, _) in shown.items():
        parents = getattr(errors, name).__mro__
        assert builtin in [parent.__name__ for parent in parents if parent.__module__ == "builtins"]


def test_the_parts_of_a_segment_are_listed_in_their_order() -> None:
    spec = BatchSpec("toy", 1, ArraySpec(shape=(1,)), ArraySpec(shape=(1,)))
    header, *regions = table("part")
    assert header == "header (4096 bytes)"
    assert regions == list(plan(spec).regions)


def test_every_autoreset_mode_is_explained() -> None:
    from gymnasium.vector import AutoresetMode

    assert {mode.removesuffix(" (default)") for mode in table("mode")} == {mode.value for mode in AutoresetMode}


@pytest.mark.parametrize("name", sorted(name for name, info in registry().transports.items() if info.local_endpoint))
def test_the_capabilities_shown_are_those_the_transport_declares(name: str) -> None:
    needed = {"grpc": "grpc", "openra": "grpc"}
    if name in needed:
        pytest.importorskip(needed[name])
    endpoint = registry().transports[name].local_endpoint.format(name=unique_name())
    with (
        lucky_transport.serve("toy", endpoint) as serving,
        lucky_transport.connect(str(serving.endpoints[0])) as client,
    ):
        declared = client.transport.capabilities
    check_capabilities(name, declared)


def test_the_capabilities_shown_of_holodeck_are_those_of_its_client() -> None:
    pytest.importorskip("posix_ipc")
    from lucky_transport_holodeck.client import WorldTransport

    check_capabilities("holodeck", WorldTransport.capabilities)


def check_capabilities(name: str, declared: Capabilities) -> None:
    header = next(line for line in README.splitlines() if line.startswith("| transport | lockstep |"))
    columns = [cell.strip() for cell in header.strip("|").split("|")][1:]
    assert columns == [one.name for one in fields(Capabilities)]
    assert table("transport")[name] == ["yes" if getattr(declared, column) else "no" for column in columns]


# --- commands ---


def command_lines() -> Iterator[str]:
    """Every `lucky-transport ...` that a reader could type, from both READMEs, all tables and all commands' help."""
    texts = [*code_blocks(README, "sh"), *code_blocks(PLUGINS_README, "sh"), *table("command")]
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
    """A folder with the files that the command lines shown name, as the present one."""
    for folder in ("training", "before", "lucky-evidence"):
        (tmp_path / folder).mkdir()
    for file in ("run.jsonl.gz", "before/bench.json", "train.py"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("project")
def test_every_command_line_that_is_shown_can_be_typed() -> None:
    for line in sorted(set(command_lines())):
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


# --- code ---


def test_the_first_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mujoco")
    env_example, *_ = code_blocks(README, "python")
    namespace: dict[str, Any] = {}
    exec(env_example, namespace)
    assert namespace["rewards"].shape == (16,)


def test_the_examples_of_typed_calls_pass_strict_type_checking(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed: pip install 'lucky-transport[dev]'")
    env_example, calls_example, async_example, *_ = code_blocks(README, "python")
    calls_of_an_env = "print(lucky_transport.make('toy').client.scene.get_info().scene_name)\n"
    for number, program in enumerate([env_example + calls_of_an_env, calls_example, async_example]):
        (tmp_path / f"program_{number}.py").write_text(program, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_examples_of_typed_calls_run() -> None:
    pytest.importorskip("mujoco")
    _, calls_example, async_example, *_ = code_blocks(README, "python")
    endpoint = f"shm://{unique_name()}"
    namespace: dict[str, Any] = {"lucky_transport": lucky_transport}
    assert "shm://demo" in calls_example
    with lucky_transport.serve("mujoco:quadruped", endpoint):
        exec(async_example.replace("shm://demo", endpoint), namespace)
        exec(calls_example.replace("shm://demo", endpoint), namespace)
        assert len(namespace["frame"].data) == 320 * 240 * 4
        _, state, observed = asyncio.run(namespace["watch"](endpoint))
        assert len(state.positions) == len(observed) == 19


def test_an_engine_that_an_example_calls_is_served_further_up() -> None:
    """Typed from top to bottom, no example waits for an engine that nothing has started."""
    served: set[str] = set()
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        if language == "sh":
            served |= set(re.findall(r"lucky-transport serve .*--endpoint (shm://\w+)", block))
        for endpoint in re.findall(r"connect(?:_async)?\(\"(shm://\w+)\"|run\(watch\(\"(shm://\w+)\"", block):
            assert served.issuperset(filter(None, endpoint)), f"nothing serves {endpoint} before:\n{block}"


def test_no_endpoint_is_served_twice_on_the_first_pages() -> None:
    first_pages = README.partition("## Commands")[0]
    served = [line for block in code_blocks(first_pages, "sh") for line in re.findall(r"serve .*(shm://\w+)", block)]
    assert len(served) == len(set(served)), served


@pytest.mark.parametrize("block", code_blocks(README.partition("## Switching")[0], "python"))
def test_the_first_examples_import_what_they_use(block: str) -> None:
    for module in ("lucky_transport", "lucky_transport_stubs", "asyncio"):
        if f"{module}." in block:
            assert f"import {module}\n" in block
    assert "ThreadPoolExecutor(" not in block or "import ThreadPoolExecutor\n" in block


def test_the_example_of_a_channel_and_a_server_makes_both() -> None:
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    (example,) = (block for block in code_blocks(README, "python") if "lucky_transport_stubs.channel(" in block)
    name = unique_name()
    namespace: dict[str, Any] = {"ThreadPoolExecutor": ThreadPoolExecutor}
    exec(example.replace("shm://greeter", f"shm://{name}"), namespace)
    channel, server = namespace["channel"], namespace["server"]
    assert isinstance(channel, grpc.Channel)
    assert isinstance(server, grpc.Server)
    echo = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
    server.add_registered_method_handlers("t.Greeter", echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Greeter", echo),))
    server.start()
    assert channel.unary_unary("/t.Greeter/Echo")(b"hello", timeout=20) == b"hello"
    channel.close()
    server.stop(None)


@pytest.fixture
def pigeon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The plugin module of plugins/README.md's transport; its engine has tests of its own, test_plugin_guide.py."""
    package = tmp_path / "lucky_transport_pigeon"
    package.mkdir()
    (package / "__init__.py").touch()
    for block in code_blocks(PLUGINS_README, "python"):
        named = re.match(r"# lucky_transport_pigeon/(\w+)\.py\n", block)
        if named:
            (package / f"{named[1]}.py").write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lucky_transport_pigeon.plugin")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lucky_transport_pigeon"]:
        del sys.modules[name]


def test_the_announcement_of_the_plugin_guide_is_understood(pigeon: ModuleType) -> None:
    (transport,) = pigeon.lucky_transport_transports()
    assert (transport.name, transport.schemes) == ("pigeon", ("pigeon",))


@pytest.mark.parametrize("text", [README, PLUGINS_README], ids=["README", "plugins/README"])
def test_every_link_to_a_file_leads_somewhere(text: str) -> None:
    base = ROOT if text is README else ROOT / "plugins"
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (base / target).exists(), target


def test_every_link_within_the_readme_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(#([^)]+)\)", README):
        assert target in headings
