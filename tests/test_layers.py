"""The arrows of the architecture, read from the imports.

The core imports no plugin, and never grpc, protobuf, MuJoCo or the package we migrate from. A plugin imports the core
and itself; plugins do not know each other (but `BUILDS_ON`), nor the migration kit. The migration kit sees transports
only through the registry. Inside the core imports go to earlier layers only, those inside functions and for type
checkers included; the contracts `transport.py` and `engine.py` may be named for type checkers from anywhere.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "lucky_transport"
PLUGINS = sorted(path for path in (ROOT / "plugins").iterdir() if path.name.startswith("lucky_transport_"))
MIGRATION = ROOT / "migration" / "lucky_transport_migration"

#: The core's packages and modules from the bottom up, one a line; each imports only what stands above it in this list.
LAYERS = (
    "errors",
    "foreign_code",
    "nesting",
    "limits",
    "other_grpc",
    "version",
    "handler_options",
    "uninterrupted",
    "deadline",
    "endpoint",
    "endpoint_options",
    "found_file",
    "atomic_write",
    "table_readers",
    "config",
    "hookspecs",
    "builtin",
    "registry",
    "closing",
    "lazy_dict",
    "fork",
    "call_counts",
    "native",
    "cuda",
    "state_machine",
    "spec",
    "messages",
    "call",
    "world",
    "engine",
    "engine_options",
    "aio",
    "futures",
    "transport",
    "independent",
    "lockstep",
    "interceptors",
    "routing",
    "codec",
    "rpc",
    "shm",
    "sessions",
    "host",
    "client",
    "env",
    "chosen",
    "control",
    "serving",
    "inproc",
    "process",
    "api",
    "lucky_env",
    "auto",
    "engines",
    "testing",
    "diagnosis",
    "cli",
    "__main__",
)

#: The rooms and modules of `shm/`, in the same way.
SHM = (
    "timing",
    "usage_guard",
    "eventfd",
    "wait",
    "arena",
    "ring",
    "ring_pipe",
    "files",
    "slot_files",
    "segment",
    "listener",
)

#: The rooms and modules of the migration kit, in the same way; beside its README's map these are small helpers.
ROOMS = (
    "jsonl",
    "units",
    "table",
    "bounds",
    "catalogue",
    "compare",
    "console",
    "paths",
    "stats",
    "evidence",
    "stages",
    "parity",
    "side_by_side",
    "recording",
    "bench",
    "gate",
    "signoff",
    "routing",
    "top",
    "scan",
    "cli",
    "plugin",
    "pytest_plugin",
)

#: Contracts that any module may name for type checkers.
CONTRACTS = {"lucky_transport.engine", "lucky_transport.transport"}

#: What must never be imported by the core: it has to work without.
FOREIGN = {"grpc", "google", "mujoco", "luckyrobots", "grpc_reflection", "grpc_health"}


#: Plugins that are made of another: what runs gRPC code over shared memory, and what speaks another system's gRPC
#: service, use what knows gRPC.
BUILDS_ON = {"lucky_transport_stubs": "lucky_transport_grpc", "lucky_transport_openra": "lucky_transport_grpc"}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "_pb" not in path.parts and "_fbs" not in path.parts)


def _name(path: Path, top: Path) -> str:
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True, slots=True)
class _Source:
    """What one file imports, as dotted names; of `from a import b` both `a` and `a.b`."""

    #: When it is imported itself.
    loaded: set[str]
    #: At any time, in functions too.
    anywhere: set[str]
    for_type_checkers: set[str]
    #: True when it looks at the environment; a default set for a foreign library is not a look.
    reads_environment: bool


@functools.cache
def _source(path: Path) -> _Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_type_checkers = filter(_is_for_type_checkers, ast.walk(tree))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    uses = [ast.unparse(node) for node in attributes if node.attr in ("environ", "environb", "getenv", "setdefault")]
    looks = [text for text in uses if text in ("os.environ", "os.environb", "os.getenv")]
    return _Source(
        loaded=_imported(path, _walk(tree, into_functions=False)),
        anywhere=_imported(path, _walk(tree, into_functions=True)),
        for_type_checkers=_imported(path, (node for block in for_type_checkers for node in ast.walk(block))),
        reads_environment=len(looks) > uses.count("os.environ.setdefault"),
    )


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _walk(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if _is_for_type_checkers(child):
            continue
        yield child
        if into_functions or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _walk(child, into_functions=into_functions)


def _imported(path: Path, nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _packages(folder: Path) -> dict[Path, set[str]]:
    """Return per file the top-level packages it imports, anywhere in it."""
    return {path: {name.partition(".")[0] for name in _source(path).anywhere} for path in _files(folder)}


def _offences(folder: Path, *allowed: str) -> list[str]:
    """Return imports of packages of this project other than the core and `allowed`."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, names in _packages(folder).items()
        for name in sorted(names)
        if name.startswith("lucky_transport_") and name not in allowed
    ]


def test_the_core_imports_no_plugin_and_nothing_foreign() -> None:
    assert _offences(CORE) == []
    foreign = {str(path): names & FOREIGN for path, names in _packages(CORE).items() if names & FOREIGN}
    assert foreign == {}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_knows_only_the_core_and_itself(plugin: Path) -> None:
    assert _offences(plugin, plugin.name, BUILDS_ON.get(plugin.name, "")) == []


def test_the_migration_kit_sees_transports_only_through_the_registry() -> None:
    assert _offences(MIGRATION, MIGRATION.name) == []


@pytest.mark.parametrize("plugin", [*PLUGINS, MIGRATION], ids=lambda path: path.name)
def test_what_a_plugin_offers_is_known_without_importing_anything_heavy(plugin: Path) -> None:
    names = {name.partition(".")[0] for name in _source(plugin / "plugin.py").loaded}
    assert names <= {"__future__", "lucky_transport", "typing", "pluggy"}


def _graph(*folders: Path, everything: bool) -> dict[str, set[str]]:
    """Return module -> modules that it imports: when it is imported itself, or with `everything` anywhere.

    `everything` leaves out the contracts of the core where they are imported for type checkers alone.
    """
    names = {_name(path, folder.parent): path for folder in folders for path in _files(folder)}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        source = _source(path)
        found = source.anywhere | (source.for_type_checkers - CONTRACTS) if everything else source.loaded
        packages = {one.rpartition(".")[0] for one in found if one in names}
        graph[name] = {one for one in found if one in names and one != name and one not in packages}
    return graph


def _part(module: str) -> str:
    """Return the module or package right below the core that `module` belongs to, "" for the core itself."""
    return module.partition(".")[2].partition(".")[0]


def test_every_part_of_the_core_has_its_layer() -> None:
    there = {_part(name) for name in _graph(CORE, everything=False)} - {""}
    assert len(set(LAYERS)) == len(LAYERS)
    assert there <= set(LAYERS), f"put into LAYERS: {sorted(there - set(LAYERS))}"


def test_inside_the_core_imports_only_go_to_earlier_layers() -> None:
    rank = {part: number for number, part in enumerate(LAYERS)}
    wrong = {
        f"{name} imports {imported}"
        for name, imports in _graph(CORE, everything=True).items()
        for imported in imports
        if _part(name) and _part(imported) and rank.get(_part(imported), 0) > rank.get(_part(name), len(rank))
    }
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize(
    ("folder", "top", "order"),
    [(CORE / "shm", "lucky_transport.shm", SHM), (MIGRATION, MIGRATION.name, ROOMS)],
    ids=["shm", "the migration kit"],
)
def test_inside_a_package_of_rooms_imports_only_go_to_earlier_rooms(
    folder: Path, top: str, order: tuple[str, ...]
) -> None:
    rank = {room: number for number, room in enumerate(order)}
    wrong: set[str] = set()
    for path in _files(folder):
        if (room := path.relative_to(folder).with_suffix("").parts[0]) == "__init__":
            continue
        found = _source(path).anywhere | _source(path).for_type_checkers
        rooms = {name.removeprefix(f"{top}.").partition(".")[0] for name in found if name.startswith(f"{top}.")}
        wrong |= {f"{path.relative_to(ROOT)} imports {one}" for one in rooms if rank[one] > rank[room]}
    assert not wrong, "\n".join(sorted(wrong))


def test_the_map_of_the_migration_kit_has_its_rooms_in_their_order() -> None:
    text = (MIGRATION.parent / "README.md").read_text(encoding="utf-8")
    rows = [row for row in re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE) if row.removesuffix(".py") in ROOMS]
    rooms = [path for path in MIGRATION.iterdir() if (path / "__init__.py").is_file()]
    assert {path.name for path in rooms} <= set(rows)
    assert rows == sorted(rows, key=lambda row: ROOMS.index(row.removesuffix(".py")))


def test_no_imports_go_in_a_circle() -> None:
    graph = _graph(CORE, *PLUGINS, MIGRATION, everything=True)
    graph = {name: imports - {"lucky_transport"} for name, imports in graph.items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(graph)


@pytest.mark.parametrize(
    ("page", "at_least"),
    [
        (CORE / "README.md", 50),
        (CORE / "codec" / "README.md", 8),
        (CORE / "host" / "README.md", 3),
        (CORE / "rpc" / "README.md", 20),
        (CORE / "shm" / "README.md", 8),
        (MIGRATION / "bench" / "README.md", 15),
        (MIGRATION / "routing" / "README.md", 8),
        (MIGRATION / "scan" / "README.md", 15),
        (ROOT / "plugins" / "lucky_transport_holodeck" / "ENGINE_END.md", 8),
    ],
    ids=lambda one: one.parent.name if isinstance(one, Path) else "",
)
def test_every_file_that_a_page_for_readers_names_exists(page: Path, at_least: int) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+(?:/|\.(?:py|c|h|md)))`", text)
    assert len(named) >= at_least
    places = [page.parent, CORE, MIGRATION, ROOT]
    # a plugin's client.py, server.py and plugin.py stand for those of any plugin
    roles = {"client.py", "server.py", "plugin.py"}
    gone = [name for name in named if name not in roles and not any((place / name).exists() for place in places)]
    assert gone == [], f"{page} names what is not there: {gone}"


def test_the_readers_map_has_every_part_of_the_core() -> None:
    text = (CORE / "README.md").read_text(encoding="utf-8")
    parts = [path for path in CORE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    # what its own module says in full
    small = {"__init__.py", "__main__.py", "aio.py", "engine_options.py", "futures.py", "handler_options.py"}
    names = {f"{path.name}/" if path.is_dir() else path.name for path in parts} - small
    missing = sorted(name for name in names if f"`{name}`" not in text)
    assert missing == [], f"put into lucky_transport/README.md: {missing}"


def test_only_the_configuration_reads_the_environment() -> None:
    """Everything else is told, so that a setting has one name, one precedence and one error text.

    Except in the Pythons that have no lucky_transport: there the launcher's bootstrap can ask nobody.
    """
    bootstrap = Path("plugins/lucky_transport_stubs/run/bootstrap/sitecustomize.py")
    folders = (CORE, *PLUGINS, MIGRATION)
    readers = [
        path.relative_to(ROOT) for folder in folders for path in _files(folder) if _source(path).reads_environment
    ]
    assert readers == [Path("lucky_transport/config.py"), bootstrap]
