"""Run the native module under the sanitizers: `python -m tests.sanitizers`, and with `--python` its Python tests.

Exit code 0 means that no sanitizer and no check of the harness found anything.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "lucky_transport" / "_native"
#: What the module shares with the C kit.
_KIT = ROOT / "schema" / "kits" / "c"

#: What a build has, by name.
SANITIZERS = {"thread": "thread", "address": "address,undefined"}
#: What each build runs, and how often in CI: jobs of one thread have no races.
JOBS = {
    "thread": {"ring": 200_000, "exchange": 20_000, "images": 20_000},
    "address": {"ring": 200_000, "exchange": 20_000, "images": 20_000, "hostile": 30_000},
}
_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=0:handle_sigbus=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


class Unavailable(Exception):
    """The compiler, its runtime or Python's headers are not here; the text says which."""


def build_harness(sanitizer: str, folder: Path, sources: Path = SOURCES) -> Path:
    """Compile harness.c with the native sources of a folder; raises Unavailable where the sanitizer does not work."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    headers = Path(sysconfig.get_path("include"))
    if compiler is None or not (headers / "Python.h").is_file():
        raise Unavailable("needs a C compiler and Python's headers (Debian: gcc, python3-dev)")
    # Unoptimised, ASan and UBSan compile in a third of the time; TSan is the one that is slow to run.
    level = "-O1" if sanitizer == "thread" else "-O0"
    flags = ["-g", level, "-std=gnu11", f"-fsanitize={SANITIZERS[sanitizer]}", "-fno-sanitize-recover=all", "-no-pie"]
    probe = folder / f"probe_{sanitizer}"
    probe.with_suffix(".c").write_text("int main(void) { return 0; }\n")
    works = subprocess.run([compiler, *flags, str(probe.with_suffix(".c")), "-o", str(probe)], capture_output=True)
    if works.returncode or subprocess.run([str(probe)], capture_output=True).returncode:
        raise Unavailable(f"{compiler} has no {sanitizer} sanitizer that works here")
    program = folder / f"harness_{sanitizer}"
    command = [compiler, *flags, "-DPy_LIMITED_API=0x030B0000", "-Wno-tsan", "-pthread"]
    command += [f"-I{folder}" for folder in (headers, sources, _KIT)]
    # What the module calls of Python beyond the stubs is on no path that the jobs take.
    command += [str(Path(__file__).with_name("harness.c")), "-o", str(program), "-Wl,--unresolved-symbols=ignore-all"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        raise RuntimeError(f"harness.c: {built.stderr}")
    return program


def run(program: Path, job: str, count: int, timeout_s: float = 500) -> subprocess.CompletedProcess[str]:
    """Run a job of the harness; what a sanitizer or a check finds is in the exit code and stderr."""
    environment = {**os.environ, **_OPTIONS}
    return subprocess.run(
        [str(program), job, str(count)], capture_output=True, text=True, timeout=timeout_s, env=environment
    )


def build_module(folder: Path) -> dict[str, str]:
    """Copy what git tracks to a folder, build the module there with ASan and UBSan; return the environment to use."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    flags = {"CFLAGS": f"-g -O1 -fsanitize={SANITIZERS['address']}"}
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
    subprocess.run(build, cwd=folder, check=True, env={**os.environ, **flags})
    runtimes = [_runtime(name) for name in ("libasan.so", "libubsan.so")]
    paths = os.pathsep.join(str(folder / name) for name in ("", "plugins", "migration", "schema"))
    return {**os.environ, **_OPTIONS, "LD_PRELOAD": " ".join(runtimes), "PYTHONMALLOC": "malloc", "PYTHONPATH": paths}


def _runtime(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


_PYTHON = (
    ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/shm"),
    ("-m", "tests.endurance.fuzz", "rings", "--rounds", "20000"),
    ("-m", "tests.endurance.fuzz", "envelopes", "--rounds", "20000"),
    ("-m", "tests.endurance.fuzz", "live", "--seconds", "60"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was chosen and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizers", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="how many times the work of CI; default: %(default)s")
    parser.add_argument("--python", action="store_true", help="the tests in Python, over a module with ASan and UBSan")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lucky_sanitizers_") as folder:
        try:
            return _python(Path(folder)) if chosen.python else _harness(Path(folder), chosen.times)
        except Unavailable as error:
            print(error, file=sys.stderr)
            return 2


def _harness(folder: Path, times: int) -> int:
    findings = 0
    for sanitizer, names in SANITIZERS.items():
        program = build_harness(sanitizer, folder)
        for job, count in JOBS[sanitizer].items():
            start = time.monotonic()
            done = run(program, job, count * times, timeout_s=3600)
            findings += done.returncode != 0
            outcome = "nothing found" if not done.returncode else f"exit code {done.returncode}\n{done.stderr}"
            took = time.monotonic() - start
            print(f"{names:20} {job:10} {count * times:12,}  {took:6.1f} s  {outcome}", flush=True)
    return 1 if findings else 0


def _python(folder: Path) -> int:
    environment = build_module(folder)
    shown = "from lucky_transport import _native; print(_native.__file__)"
    subprocess.run([sys.executable, "-c", shown], cwd=folder, env=environment, check=True)
    return max(
        subprocess.run([sys.executable, *command], cwd=folder, env=environment).returncode for command in _PYTHON
    )


if __name__ == "__main__":
    sys.exit(main())
