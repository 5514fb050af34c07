"""A build of the native module with fault points (`_native/faults.h`), for the processes of the crash tests.

`build` compiles it into a folder of its own; a process whose environment names the file uses it from the import of this
module on, in the place of the installed one. It has to come before any import of shared memory.
"""

import hashlib
import importlib.machinery
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENT = "FAULT_POINTS_MODULE"
_NAME = "lucky_transport._native"
_ROOT = Path(__file__).parents[2]
_SOURCES = _ROOT / "lucky_transport" / "_native"
_POINT = re.compile(r'(?:LUCKY_FAULT|copy_halves)\([^"\n]*"([a-z_.]+)"\)')
#: Every point that the C sources have.
POINTS = sorted({point for file in _SOURCES.glob("*.c") for point in _POINT.findall(file.read_text())})


def build() -> Path | None:
    """Return the file of the module, compiled when the sources have changed; None without a compiler."""
    contents = b"".join((_ROOT / name).read_bytes() for name in native_files())
    digest = hashlib.sha256(contents + sys.version.encode()).hexdigest()[:16]
    built = _ROOT / "build" / "faults" / digest / "_native.abi3.so"
    if built.is_file():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    part = built.with_suffix(f".{os.getpid()}")
    if not compile_native(_ROOT, part, "-DLUCKY_FAULT_POINTS"):
        return None
    part.rename(built)
    return built


def native_files() -> list[str]:
    """Return the files that the native module is made of, by their paths in the tree."""
    module = _module(_ROOT)
    return [*module["sources"], *module["depends"]]


def compile_native(root: Path, to: Path, *options: str) -> bool:
    """Compile the native module of the tree at `root` to a file; False where that cannot be done."""
    module = _module(root)
    macros = [f"-D{name}={value}" for name, value in module["define-macros"]]
    command = [*shlex.split(os.environ.get("CC") or "cc"), "-shared", "-fPIC", "-O1", "-std=gnu11", *macros, *options]
    folders = [sysconfig.get_path("include"), np.get_include(), *(root / name for name in module["include-dirs"])]
    includes = [f"-I{folder}" for folder in folders]
    command += [*includes, "-o", str(to), *(str(root / name) for name in module["sources"])]
    try:
        return subprocess.run(command, timeout=120).returncode == 0
    except OSError:
        return False


def _module(root: Path) -> dict[str, Any]:
    with (root / "pyproject.toml").open("rb") as file:
        modules = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
    return next(one for one in modules if one["name"] == _NAME)


def use(path: str) -> None:
    """Have this process use that build; it may not have imported the other one."""
    if _NAME in sys.modules:
        raise AssertionError("the native module is in use already")
    import lucky_transport as package  # which does not import it

    loader = importlib.machinery.ExtensionFileLoader(_NAME, path)
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[_NAME] = module
    package._native = module  # pyright: ignore[reportAttributeAccessIssue]


if os.environ.get(ENVIRONMENT):
    use(os.environ[ENVIRONMENT])
