"""The arrows of the architecture, read from the imports.

Rule 1: the core imports no plugin, and never grpc, protobuf, MuJoCo or the package we migrate from.
Rule 2: a plugin imports the core and itself; plugins do not know each other (but `BUILDS_ON`), nor the migration kit.
Rule 3: the migration kit sees transports only through the registry.
Rule 4: inside the core imports only go to earlier layers, and nowhere in a circle.
Imports for type checkers do not count; imports inside functions count for rules 1 to 3.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "lucky_transport"
PLUGINS = sorted(path for path in (ROOT / "plugins").iterdir() if path.name.startswith("lucky_transport_"))
MIGRATION = ROOT / "migration" / "lucky_transport_migration"

#: The core's modules and packages, from the bottom up; each may import its own layer and those above in this list.
LAYERS: list[set[str]] = [
    {"errors", "wording"},
    {
        "deadline",
        "waiting",
        "spec",
        "endpoint",
        "hookspecs",
        "config",
        "messages",
        "engine_options",
        "lockstep",
        "marks",
    },
    {"call", "pending"},
    {"engine", "codec", "registry", "builtin"},
    {"aio", "transport", "rpc", "shm", "host", "agents", "engines", "process", "inventory", "sessions"},
    {"inproc", "serving", "client", "staging"},
    {"inspection", "diagnosis"},
    {"env", "api"},
    {"supervised"},
    {"cli", "testing", "auto", "__main__"},
]

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


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _walk(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if _is_for_type_checkers(child):
            continue
        yield child
        if into_functions or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _walk(child, into_functions=into_functions)


def _imports(path: Path, *, into_functions: bool) -> set[str]:
    """Return the dotted names that a file imports; of `from a import b` both `a` and `a.b`."""
    found: set[str] = set()
    for node in _walk(ast.parse(path.read_text(encoding="utf-8")), into_functions=into_functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _packages(folder: Path) -> dict[Path, set[str]]:
    """Return per file the top-level packages it imports, anywhere in it."""
    return {path: {name.partition(".")[0] for name in _imports(path, into_functions=True)} for path in _files(folder)}


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
    names = {name.partition(".")[0] for name in _imports(plugin / "plugin.py", into_functions=False)}
    assert names <= {"__future__", "lucky_transport", "typing", "pluggy"}


def _graph() -> dict[str, set[str]]:
    """Return module -> modules of the core that it imports when it is imported."""
    names = {_name(path, ROOT): path for path in _files(CORE)}
    return {
        name: {found for found in _imports(path, into_functions=False) if found in names and found != name}
        for name, path in names.items()
    }


def _part(module: str) -> str:
    """Return the module or package right below the core that `module` belongs to, "" for the core itself."""
    return module.partition(".")[2].partition(".")[0]


def test_every_part_of_the_core_has_its_layer() -> None:
    drawn = set().union(*LAYERS)
    there = {_part(name) for name in _graph()} - {""}
    assert there <= drawn, f"put into LAYERS: {sorted(there - drawn)}"
    assert drawn <= there, f"gone, take out of LAYERS: {sorted(drawn - there)}"


def test_inside_the_core_imports_only_go_to_earlier_layers() -> None:
    rank = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    wrong = [
        f"{name} imports {imported}"
        for name, imports in _graph().items()
        for imported in imports
        if _part(name) and _part(imported) and rank[_part(imported)] > rank[_part(name)]
    ]
    assert wrong == []


def test_no_imports_go_in_a_circle() -> None:
    graph = {name: imports - {"lucky_transport"} for name, imports in _graph().items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(graph)


def _reads_the_environment(path: Path) -> bool:
    """True when a file looks at the environment; a default set for a foreign library is not a look."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = [ast.unparse(node) for node in tree if isinstance(node, ast.Attribute)]
    looks = [text for text in found if text in ("os.environ", "os.environb", "os.getenv")]
    return len(looks) > found.count("os.environ.setdefault")


def test_only_the_configuration_reads_the_environment() -> None:
    """Everything else is told, so that a setting has one name, one precedence and one error text.

    Except in the Pythons that have no lucky_transport: there the launcher's bootstrap can ask nobody.
    """
    bootstrap = Path("plugins/lucky_transport_stubs/run/bootstrap/sitecustomize.py")
    folders = (CORE, *PLUGINS, MIGRATION)
    readers = [path.relative_to(ROOT) for folder in folders for path in _files(folder) if _reads_the_environment(path)]
    assert readers == [Path("lucky_transport/config.py"), bootstrap]
