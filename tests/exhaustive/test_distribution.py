"""The files that users get: a wheel and an sdist, built offline from a copy of this tree.

The builds take the setuptools that is installed here, and the C compiler. Where there is none, and to build as such a
machine does, they download ziglang, as `pip install` would.
"""

import os
import shutil
import subprocess
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.tags import cpython_tags
from packaging.utils import parse_wheel_filename

from tests.support.command import python, stdout_of

ROOT = Path(__file__).parents[2]

setuptools = pytest.importorskip("setuptools", "77", reason="setuptools >= 77 builds the distribution")

#: What a build reads, and what belongs into the sdist besides.
PARTS = ("docs", "lucky_transport", "plugins", "migration", "proto", "schema", "tests")
#: One wheel for this Python and all newer ones.
STABLE_ABI = "cp311-abi3"

#: A command that compiles nothing.
NO_COMPILER = "/bin/false"

#: What leads a compiler to the folders where it keeps what it may use again.
CACHES = ("HOME", "XDG_CACHE_HOME", "TMPDIR")

BUILD = "import sys, build_backend as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def copy_of_tree(folder: Path) -> Path:
    """A copy of what is under version control, so that no build writes into the tree, nor takes an old build."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build", ".*", "lucky-evidence")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".gitignore":
            shutil.copy2(path, folder / path.name)
    return folder


def run(program: str, *args: str, tree: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """`program` in the root of `tree`, where the build backend is."""
    variables = os.environ | {"SOURCE_DATE_EPOCH": "946684800"} | environ
    return python("-c", program, *args, cwd=tree, env=variables, timeout=300)


def build(kind: str, tree: Path, into: Path, **environ: str) -> Path:
    """The `kind` ("wheel", "sdist") of the project in `tree`."""
    into.mkdir(exist_ok=True)
    return into / stdout_of(run(BUILD, kind, str(into), tree=tree, **environ)).splitlines()[-1]


def contents(wheel: Path) -> dict[str, bytes]:
    """What a wheel holds, without the record of its own files and the compiled module, which holds paths."""
    with zipfile.ZipFile(wheel) as archive:
        left_out = (".so", ".dist-info/RECORD")
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith(left_out)}


def compiled(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if name.endswith(".so"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def ziglang(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine whose only C compiler is the one that the build asks for."""
    folder = tmp_path_factory.mktemp("ziglang")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", folder]
    done = python(*install, "ziglang", timeout=None)
    if done.returncode:
        pytest.skip(f"ziglang cannot be installed here: {done.stderr[-200:]}")
    return {"CC": NO_COMPILER, "PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def compiler(request: pytest.FixtureRequest, tree: Path) -> dict[str, str]:
    """The environment in which the module is compiled."""
    if run("import build_backend as b; assert b.compiler_answers()", tree=tree).returncode == 0:
        return {}
    return request.getfixturevalue("ziglang")


@pytest.fixture(scope="module")
def wheel(tree: Path, compiler: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tree, tmp_path_factory.mktemp("wheel"), **compiler)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    source = copy_of_tree(tmp_path_factory.mktemp("source"))
    sdist = build("sdist", source, tmp_path_factory.mktemp("sdist"))
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (project,) = folder.iterdir()
    return project


def test_the_wheel_of_the_native_module_is_for_all_newer_pythons(wheel: Path) -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("a free-threaded Python has no stable ABI")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert compiled(wheel) == ["lucky_transport/_native.abi3.so"]
    assert wheel.name.endswith(f"-{STABLE_ABI}-{platform}.whl")
    *_, tags = parse_wheel_filename(wheel.name)
    for minor in (11, 12, 13, 14):
        assert tags & set(cpython_tags((3, minor), platforms=[platform])), f"pip on 3.{minor} refuses {wheel.name}"


@pytest.mark.parametrize("kind", ["wheel", "editable"])
@pytest.mark.parametrize(("status", "asked"), [(0, []), (1, ["ziglang"])])
def test_the_build_asks_for_a_compiler_where_none_answers(
    tree: Path, tmp_path: Path, kind: str, status: int, asked: list[str]
) -> None:
    fake = tmp_path / "cc"
    fake.write_text(f"#!/bin/sh\nexit {status}\n")
    fake.chmod(0o755)
    ask = f"import build_backend as b; print(b.get_requires_for_build_{kind}())"
    for compiler in [f"{fake} -pthread", *([] if status == 0 else [str(tmp_path / "missing")])]:
        assert stdout_of(run(ask, tree=tree, CC=compiler)).splitlines()[-1] == str(asked)


def test_a_search_path_without_a_compiler_is_a_machine_without_one(tree: Path, tmp_path: Path) -> None:
    ask = "import os; os.environ.pop('CC', None); import build_backend as b; print(b.compiler_answers())"
    assert run(ask, tree=tree, PATH=str(tmp_path)).stdout == "False\n"


def test_a_build_without_any_compiler_names_the_remedy(tree: Path, tmp_path: Path) -> None:
    hide = "import build_backend as b, sys; b.importlib.util.find_spec = lambda name: None; b.build_wheel(sys.argv[1])"
    done = run(hide, str(tmp_path), tree=tree, CC=NO_COMPILER)
    assert done.returncode == 1
    assert "no C compiler answers: install gcc or clang, or ziglang into this environment" in done.stderr


def test_the_compiler_that_the_build_asks_for_makes_the_same_wheel(
    tree: Path, ziglang: dict[str, str], wheel: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(tree, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    caches = tmp_path / "caches"
    caches.mkdir()
    again = build("wheel", source, tmp_path / "wheel", **ziglang, **dict.fromkeys(CACHES, str(caches)))
    assert list(caches.iterdir()) == []
    assert again.name == wheel.name
    assert compiled(again) == compiled(wheel)
    assert contents(again) == contents(wheel)
    with zipfile.ZipFile(again) as archive:
        archive.extractall(tmp_path / "site")
        for module in compiled(again):
            assert b".debug_info" not in archive.read(module)
    imports = [f"import {module.partition('.')[0].replace('/', '.')} as module" for module in compiled(again)]
    load = "; ".join([*imports, "print(module.__file__)"])
    printed = stdout_of(run(load, tree=tmp_path, PYTHONPATH=str(tmp_path / "site")))
    assert printed.startswith(str(tmp_path / "site"))


def test_the_wheel_holds_no_sources_of_the_native_modules(wheel: Path) -> None:
    assert [
        name for name in contents(wheel) if name.startswith("lucky_transport/") and name.endswith((".c", ".h"))
    ] == []


def test_the_core_stays_small(wheel: Path) -> None:
    """Without the compiled modules, which a release strips: docs/reference/compatibility.md names the sizes."""
    with zipfile.ZipFile(wheel) as archive:
        core = [info for info in archive.infolist() if info.filename.startswith("lucky_transport/")]
    core = [info for info in core if not info.filename.endswith(".so")]
    assert sum(info.compress_size for info in core) < 0.6e6
    assert sum(info.file_size for info in core) < 1.8e6


def test_the_wheel_installs_no_package_but_ours(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in contents(wheel)}
    assert all(top.startswith("lucky_transport") for top in tops), tops


@pytest.mark.parametrize(
    "path",
    [
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "docs/reference/settings.md",
        "migration/README.md",
        "mkdocs.yml",
        "migration/example/walk.py",
        "plugins/README.md",
    ],
)
def test_the_sdist_holds_the_documents(unpacked: Path, path: str) -> None:
    assert (unpacked / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.parametrize("part", PARTS)
def test_the_sdist_holds_every_source_file(unpacked: Path, tree: Path, part: str) -> None:
    built = ("__pycache__", ".egg-info", ".so")
    wanted = {path.relative_to(tree) for path in (tree / part).rglob("*") if path.is_file()}
    wanted = {path for path in wanted if not any(word in str(path) for word in built)}
    found = {path.relative_to(unpacked) for path in (unpacked / part).rglob("*") if path.is_file()}
    assert wanted <= found, sorted(map(str, wanted - found))


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_tree(
    unpacked: Path, wheel: Path, compiler: dict[str, str], tmp_path: Path
) -> None:
    again = build("wheel", unpacked, tmp_path / "wheel", **compiler)
    assert again.name == wheel.name
    assert compiled(again) == compiled(wheel)
    assert contents(again) == contents(wheel)
