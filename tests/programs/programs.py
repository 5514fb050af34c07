"""The programs of `table.toml`, and the environments that they run in."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).parent
_INSTALL_TIMEOUT_S = 900


class CannotInstall(Exception):
    """A package that cannot be had on this machine, with the reason."""


@dataclass(frozen=True, slots=True)
class Program:
    """One row of the table.

    packages: what is installed, the program itself first. modules: what has to be importable for it. unresolved:
    packages to install without their dependencies and their bound on Python, which exclude what this project supports.
    calls, rounds: how many small calls and rounds are timed. engine: the engine of this project that serves it. skip:
    fields of messages that differ from call to call, with the reasons: no comparison looks at them. metadata: what
    every call has that no recording has, as the token of call credentials.
    """

    name: str
    case: str
    packages: Sequence[str]
    modules: Sequence[str]
    what: str
    loop: str = ""
    remark: str = ""
    unresolved: Sequence[str] = ()
    calls: int = 500
    rounds: int = 100
    engine: str = ""
    skip: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def title(self) -> str:
        """Its name, with the version where the name is that of a package."""
        package, _, version = (self.unresolved or self.packages)[0].partition("==")
        return f"{self.name} {version}" if package.partition("[")[0] == self.name else self.name

    @property
    def asked(self) -> list[str]:
        """All that is installed for it."""
        return [*self.packages, *self.unresolved]

    @property
    def missing(self) -> list[str]:
        """The modules that this interpreter lacks."""
        return [module for module in self.modules if not _is_found(module)]


def programs() -> list[Program]:
    """Return the programs of the table, in its order."""
    rows = tomllib.loads((_HERE / "table.toml").read_text(encoding="utf-8"))["program"]
    return [Program(**row) for row in rows]


def wheel(folder: Path) -> Path:
    """Build this project's wheel into the folder, and return its file."""
    command = (
        ["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)]
        if shutil.which("uv")
        else [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    )
    _execute(command)
    return next(folder.glob("*.whl"))


def environment(program: Program, folder: Path, project: Path) -> str:
    """Return the Python of an environment that has the program and this project's wheel; raises CannotInstall.

    An environment stays in its folder for the next time, as long as the table asks for the same packages.
    """
    place = folder / f"{program.case}-{hashlib.sha256(' '.join(program.asked).encode()).hexdigest()[:8]}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        makers = {
            True: ["uv", "venv", "--quiet", "--seed", "--python", sys.executable],
            False: [sys.executable, "-m", "venv"],
        }
        _execute([*makers[bool(shutil.which("uv"))], str(place)])
        if program.unresolved:
            one_by_one = ["--no-deps", "--ignore-requires-python", *program.unresolved]
            _execute([str(python), "-m", "pip", "install", "--quiet", *one_by_one])  # which uv has no option for
        if program.packages:
            _execute([*_pip(python), *program.packages])
        (place / "complete").touch()
    _execute([*_pip(python), str(project)])
    _execute([*_pip(python), *_again(), "--no-deps", str(project)])
    for module in program.modules:  # each by itself: two may register the same messages
        _execute([str(python), "-c", f"import {module}"])
    return str(python)


def _pip(python: Path) -> list[str]:
    if shutil.which("uv"):
        return ["uv", "pip", "install", "--quiet", "--index-strategy", "unsafe-best-match", "--python", str(python)]
    return [str(python), "-m", "pip", "install", "--quiet"]


def _again() -> list[str]:
    return ["--reinstall"] if shutil.which("uv") else ["--force-reinstall"]


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package of it
        return False


def _execute(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout).strip().splitlines()[-1:] or [f"exit status {error.returncode}"]
        raise CannotInstall(f"{' '.join(command[-2:])}: {last[0]}") from None
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{' '.join(command[-2:])}: not done within {_INSTALL_TIMEOUT_S} s") from None
