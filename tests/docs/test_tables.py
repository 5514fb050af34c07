"""Tables, links and limits of the documentation say what the code says."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from lucky_transport import errors
from lucky_transport.config import Settings
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.shm.segment.layout import plan
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.transport import Capabilities
from tests.support.pages import DOCS, README, ROOT, name_of, pages, table

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
            assert rows[f"{name}:{variant}"] == [info.summary]


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


#: Page, module, name of the limit there, and the sentence that says it.
LIMITS = [
    ("docs/reference/limits.md", "lucky_transport.shm.listener.listener", "MAX_CLIENTS", "takes {:,} clients at once"),
    ("docs/reference/limits.md", "lucky_transport.rpc.server", "MAX_CALLS", "while {:,} others of its connection"),
    (
        "docs/reference/limits.md",
        "lucky_transport_stubs.aio.subchannel",
        "MOST_CALLS",
        "another connection for calls beyond {}",
    ),
    (
        "plugins/lucky_transport_stubs/README.md",
        "lucky_transport.rpc.server",
        "MAX_CALLS",
        "takes {:,} calls at a time",
    ),
    ("docs/how-to/typed-calls.md", "lucky_transport.deadline", "NOTICE_AFTER_S", "more than {:g} s for an engine"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.session", "SessionLimits.sessions", "holds up to {:,} ind"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.session", "SessionLimits.idle_s", "it was idle for {:g} s"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.batch_advance", "MAX_IN_FLIGHT", "sends up to {} requests"),
    ("docs/how-to/top.md", "lucky_transport_migration.top.activity", "_HUNG_S", "not looked at its segment for {:g} s"),
    (
        "plugins/lucky_transport_grpc/README.md",
        "lucky_transport.host.driver_lease",
        "IDLE_S",
        "none has called for {:g} s",
    ),
    (
        "plugins/lucky_transport_grpc/README.md",
        "lucky_transport_grpc.typed_service",
        "MAX_STREAMS",
        "A server serves {} of",
    ),
    ("plugins/lucky_transport_grpc/README.md", "lucky_transport_grpc.streams", "KEPT", "it keeps the {} newest items"),
    ("plugins/lucky_transport_grpc/README.md", "lucky_transport_grpc.metadata", "WINDOW", "N is at most {}, because"),
    (
        "plugins/lucky_transport_stubs/README.md",
        "lucky_transport_stubs.words.metadata",
        "_MOST_BYTES",
        "has {:,} bytes at most",
    ),
    (
        "docs/how-to/migrate.md",
        "lucky_transport_migration.routing.router",
        "_THREADS",
        "At most {} shadows run at once",
    ),
    ("docs/how-to/migrate.md", "lucky_transport_migration.routing.router", "_ROOM", "there is room for {} in all"),
    (
        "docs/reference/evidence.md",
        "lucky_transport_migration.evidence.evidence_queue",
        "_ROOM",
        "At most {:,} calls and",
    ),
    (
        "docs/how-to/record-and-replay.md",
        "lucky_transport_migration.recording.entries",
        "KEPT_ITEMS",
        "Of a stream the first {} items",
    ),
]


@pytest.mark.parametrize(
    ("page", "module", "name", "sentence"), LIMITS, ids=[f"{at}-{name}" for at, _, name, _ in LIMITS]
)
def test_a_page_names_the_limit_that_is_in_force(page: str, module: str, name: str, sentence: str) -> None:
    if "grpc" in module or "stubs" in module:
        pytest.importorskip("grpc")
    owner, _, field = name.rpartition(".")
    holder: Any = importlib.import_module(module)
    limit = getattr(attrgetter(owner)(holder)() if owner else holder, field)
    assert sentence.format(limit) in " ".join((ROOT / page).read_text(encoding="utf-8").split())
