"""The distribution: what the README promises, what CI runs, what an install brings."""

import importlib.util
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.registry import registry
from tests.support.command import execute, python, stdout_of

ROOT = Path(__file__).parents[2]

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]

#: Extras that bring hundreds of megabytes, which most users do not want with `all`.
LARGE = {"openenv", "ray"}
#: Extras with training frameworks, each of which brings PyTorch, in versions of its own.
FRAMEWORKS = {"rllib", "rsl-rl", "sb3", "skrl", "torchrl"}

#: The plugins and the migration kit, each a package of its own.
PACKAGES = sorted(path.parent for folder in ("plugins", "migration") for path in ROOT.glob(f"{folder}/*/plugin.py"))


def readme_command(name: str) -> str:
    """The command in README.md behind the marker `<!-- ci:name -->`; there must be exactly one line."""
    blocks = re.findall(
        rf"^<!-- ci:{name} -->\n```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 1, f"README.md has {len(blocks)} commands marked ci:{name}"
    (line,) = blocks[0].splitlines()
    return line


# --- README and CI ---


def test_the_readmes_first_screen_holds_two_commands_that_install_and_do_what_they_say() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    assert readme_command("demo") == "pip install -e '.[all]' && lucky-transport demo"
    assert readme_command("test") == "pip install -e '.[all,dev]' && python -m pytest -n 4 --dist loadfile"
    assert {readme_command("demo"), readme_command("test")} <= set(first_screen)


def test_ci_runs_the_readmes_own_commands() -> None:
    printed = stdout_of(execute(ROOT / ".ci" / "run", "--print-commands"))
    assert printed.splitlines() == [readme_command("demo"), readme_command("test")]
    script = (ROOT / ".ci" / "run").read_text()
    assert 'as_typed demo "$demo_command"' in script
    assert 'tests all in_fresh "$test_command"' in script


@pytest.mark.parametrize("script", ["run", "distributions"])
def test_ci_is_bash_that_parses(script: str) -> None:
    assert execute("bash", "-n", ROOT / ".ci" / script).returncode == 0


def test_the_script_of_releases_tells_its_commands() -> None:
    told = execute(ROOT / ".ci" / "distributions")
    assert told.returncode == 2
    for command in ("tools", "build FOLDER", "try WHEEL", "try-aarch64 WHEEL", "check TAG"):
        assert f".ci/distributions {command}" in told.stdout


def test_the_release_workflow_only_calls_scripts_of_this_repository() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    commands = re.findall(r"^ +- run: (.*)$", workflow, re.MULTILINE)
    assert len(commands) == workflow.count("run:") > 3
    for command in commands:
        script = ROOT / command.split()[0]
        assert os.access(script, os.X_OK), command
    assert "${{ github.ref_name }}" not in "".join(commands)  # a tag's name is no shell code


def test_a_release_under_another_tag_or_with_placeholders_is_refused() -> None:
    script = ROOT / ".ci" / "distributions"
    refused = execute(script, "check", "v99.0")
    assert refused.returncode == 1
    assert f"the tag is v99.0, pyproject.toml has version {PYPROJECT['project']['version']}" in refused.stderr
    placeholders = [url for url in PYPROJECT["project"]["urls"].values() if ".example" in url]
    assert refused.stderr.count("is a placeholder") == len(placeholders)


def test_the_version_is_in_one_place() -> None:
    version = PYPROJECT["project"]["version"]
    assert "dynamic" not in PYPROJECT["project"]
    packages = [ROOT / "lucky_transport", *PACKAGES]
    assigned = re.compile(rf"version\w*\s*=\s*[\"']{re.escape(version)}[\"']", re.IGNORECASE)
    copies = [
        str(path)
        for package in packages
        for path in package.rglob("*.py")
        if assigned.search(path.read_text(encoding="utf-8"))
    ]
    assert copies == []


def test_the_changelog_knows_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{PYPROJECT['project']['version']}]" in changelog
    assert metadata.version("lucky-transport") == PYPROJECT["project"]["version"]


# --- extras and entry points ---


def test_every_extra_that_an_error_can_name_exists() -> None:
    offered = [*registry().transports.values(), *registry().engines.values(), *registry().commands.values()]
    named = {extra for info in offered if info.extra for extra in info.extra.split(",")}
    assert named <= set(EXTRAS)
    for path in [*ROOT.glob("lucky_transport/**/*.py"), *ROOT.glob("plugins/**/*.py"), *ROOT.glob("migration/**/*.py")]:
        for hint in re.findall(r"lucky-transport\[([\w,]+)\]", path.read_text(encoding="utf-8")):
            for extra in hint.split(","):
                assert extra in EXTRAS or extra == "extra", f"{path}: {extra}"


def test_an_environment_that_has_grpc_is_not_moved_by_adding_us() -> None:
    """Releases of health checking and reflection each lift protobuf; `.ci/distributions try` installs the oldest."""
    asked = [*PYPROJECT["project"]["dependencies"], *EXTRAS["grpc"]]
    bounds = [re.fullmatch(r"([a-z]+)>=\d+\.\d+", one) for one in asked]
    assert all(bounds), asked
    assert {bound[1] for bound in bounds if bound} == {
        "click", "grpcio", "gymnasium", "numpy", "pluggy", "protobuf"
    }  # fmt: skip


def test_all_is_the_sum_of_the_extras_for_users() -> None:
    (everything,) = EXTRAS["all"]
    summed = everything.removeprefix("lucky-transport[").removesuffix("]").split(",")
    assert sorted(summed) == sorted(set(EXTRAS) - {"all", "dev", "docs", "migration", "peers"} - LARGE - FRAMEWORKS)


@pytest.mark.parametrize("name", sorted(PYPROJECT["project"]["entry-points"]["lucky_transport"]))
def test_every_entry_point_loads_without_what_it_offers(name: str) -> None:
    points = {point.name: point for point in metadata.entry_points(group="lucky_transport")}
    assert points[name].value == PYPROJECT["project"]["entry-points"]["lucky_transport"][name]
    assert importlib.util.find_spec(points[name].value) is not None
    assert name not in registry().broken


def test_the_command_is_installed() -> None:
    (point,) = metadata.entry_points(group="console_scripts", name="lucky-transport")
    assert point.value == PYPROJECT["project"]["scripts"]["lucky-transport"]
    assert callable(point.load())


def test_every_plugin_folder_has_its_entry_point() -> None:
    named = {value.partition(".")[0] for value in PYPROJECT["project"]["entry-points"]["lucky_transport"].values()}
    assert {package.name for package in PACKAGES} == named


@pytest.mark.parametrize("package", [ROOT / "lucky_transport", *PACKAGES], ids=lambda path: path.name)
def test_every_package_says_that_it_is_typed(package: Path) -> None:
    assert (package / "py.typed").is_file()


# --- what an import brings ---

LIST_IMPORTS = """
import importlib, json, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""


LIST_IMPORTS_OF_EACH = """
import importlib, json, sys
brought = {}
for package, names in json.loads(sys.argv[2]).items():
    before = set(sys.modules)
    for name in names:
        importlib.import_module(name)
    brought[package] = [name for name in json.loads(sys.argv[1]) if name in set(sys.modules) - before]
print(json.dumps(brought))
"""


def imported(heavy: list[str], *modules: str) -> list[str]:
    """Those of `heavy` that are in sys.modules after a fresh process imported `modules`."""
    printed = stdout_of(python("-W", "ignore", "-c", LIST_IMPORTS, json.dumps(heavy), *modules))
    return json.loads(printed.splitlines()[-1])


def modules_of(package: Path) -> list[str]:
    """Every module of a package, by its dotted name."""
    names: list[str] = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package.parent).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        if "_fbs" not in parts and relative.name != "__main__":
            names.append(".".join(parts))
    return names


@pytest.mark.parametrize(
    ("modules", "more"),
    [(["lucky_transport"], ["click"]), (PYPROJECT["project"]["entry-points"]["lucky_transport"].values(), [])],
    ids=["the package", "its plugins"],
)
def test_an_import_imports_nothing_heavy(modules: Iterable[str], more: list[str]) -> None:
    heavy = ["numpy", "gymnasium", "grpc", "google.protobuf", "mujoco", "flatbuffers", "matplotlib", "rich", *more]
    assert imported(heavy, *modules) == []


def test_the_core_imports_no_extra() -> None:
    left_out = ("lucky_transport.testing", "lucky_transport.auto")  # needs test tools; acts when it is imported
    modules = [name for name in modules_of(ROOT / "lucky_transport") if not name.startswith(left_out)]
    assert imported(["grpc", "google.protobuf", "mujoco"], *modules) == []


#: What must be installed to import all modules of a package.
NEEDED = {
    "lucky_transport_mujoco": "mujoco",
    "lucky_transport_holodeck": "posix_ipc",
    "lucky_transport_openenv": "openenv",
    "lucky_transport_ray": "ray",
    "lucky_transport_migration": "posix_ipc",
    "lucky_transport_opentelemetry": "opentelemetry",
}
#: The plugins whose wire is gRPC, or whose users program against it.
SPEAK_GRPC = ("lucky_transport_grpc", "lucky_transport_stubs", "lucky_transport_openra")


WITHOUT_GRPC = [package for package in PACKAGES if package.name not in SPEAK_GRPC]


@pytest.fixture(scope="module")
def brought() -> dict[str, list[str]]:
    """What of grpc the import of each package brings, one after the other in one fresh process."""
    here = [package for package in WITHOUT_GRPC if package.name not in NEEDED or find_spec(NEEDED[package.name])]
    asked = {package.name: checked_modules_of(package) for package in here}
    heavy = json.dumps(["grpc", "google.protobuf", "lucky_transport_grpc"])
    printed = stdout_of(python("-W", "ignore", "-c", LIST_IMPORTS_OF_EACH, heavy, json.dumps(asked)))
    return json.loads(printed.splitlines()[-1])


def checked_modules_of(package: Path) -> list[str]:
    """The modules of a package that must not import grpc."""
    # The bench of stubs runs what needs grpc in processes of their own; only what starts them is held to this.
    programs = "lucky_transport_migration.bench.stubs."
    held = f"{programs}programs"
    modules = [name for name in modules_of(package) if not name.startswith(programs) or name == held]
    others = (
        *(f"lucky_transport_migration.{one}" for one in ("side_by_side", "pytest_plugin")),
        # tests/frameworks runs these, in an environment that has the frameworks
        *(f"lucky_transport_frameworks.{one}" for one in ("ppo", "rsl_rl", "sb3")),
    )  # need pytest, or a training framework
    return [name for name in modules if not name.startswith(others)]


@pytest.mark.parametrize("package", WITHOUT_GRPC, ids=lambda path: path.name)
def test_nothing_but_the_plugins_for_grpc_imports_grpc(package: Path, brought: dict[str, list[str]]) -> None:
    if package.name in NEEDED:
        pytest.importorskip(NEEDED[package.name])
    assert brought[package.name] == []


# --- the native module ---


def test_an_install_without_the_native_module_fails() -> None:
    (module,) = PYPROJECT["tool"]["setuptools"]["ext-modules"]
    assert "optional" not in module
    folder = ROOT / "lucky_transport" / "_native"
    assert {ROOT / path for path in module["sources"]} == set(folder.glob("*.c"))
    assert {ROOT / path for path in module["depends"]} == {*folder.glob("*.h"), ROOT / "schema/kits/c/lucky_park.h"}
    assert module["name"] == "lucky_transport._native"


_SETUP = """
import setuptools, sysconfig, sys
before, is_free = sysconfig.get_config_var, sys.argv[1] == "free"
sysconfig.get_config_var = lambda name: is_free if name == "Py_GIL_DISABLED" else before(name)
from distutils.core import run_setup
build = run_setup("setup.py", ["-q", "build_ext"], stop_after="commandline").get_command_obj("build_ext")
build.ensure_finalized()
[native] = build.extensions
print(native.define_macros, native.py_limited_api)
"""


@pytest.mark.parametrize(
    ("python", "built"), [("", "[('Py_LIMITED_API', '0x030B0000')] True"), ("free", "[] False")], ids=["abi3", "free"]
)
def test_a_free_threaded_python_builds_without_the_limited_api(python: str, built: str) -> None:
    done = execute(sys.executable, "-c", _SETUP, python, cwd=ROOT, timeout=None, check=True)
    assert done.stdout.splitlines()[-1] == built
