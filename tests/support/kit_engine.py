"""Example engines of the kits (`schema/kits`), as processes of their own at a segment's name."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.transport import Transport
from tests.support.build_once import build_once
from tests.support.command import execute, python, stdout_of
from tests.support.waiting import PATIENCE_S

KITS = Path(__file__).parents[2] / "schema" / "kits"
#: A compiler needs 3 s.
_COMPILER_S = 300


def compile_csharp(program: Path, sources: Iterable[str], symbols: Iterable[str] = ()) -> list[str]:
    """Compile the C# kit with these sources besides to `program`, and return the command that runs it.

    Skips where mono is not installed. sources: as mcs takes them, below the kit's folder. symbols: defined for `#if`.
    """
    mcs, mono = shutil.which("mcs"), shutil.which("mono")
    if mcs is None or mono is None:
        pytest.skip("mono is not installed: apt-get install mono-mcs mono-runtime libmono-system-core4.0-cil")
    recursive = [f"-recurse:{pattern}" for pattern in ("src/*.cs", *sources)]
    command = [mcs, "-unsafe", "-warn:4", "-warnaserror", f"-out:{program}", *recursive]
    command += [f"-define:{symbol}" for symbol in symbols]
    build_once(program, lambda: _compile(command))
    return [mono, str(program)]


def compile_c(program: Path, source: str, *more: str, level: str = "-O3") -> list[str]:
    """Compile a source of the C kit to `program`, and return the command that runs it; skips without a compiler.

    more: further flags and sources. level: what no test compares bit for bit compiles in half the time at -O1.
    """
    flags = ["-std=c11", level, "-ffp-contract=off", "-fno-trapping-math"]
    return _compile_native("cc", program, [*flags, f"-I{KITS / 'c'}", str(KITS / "c" / source), *more])


def compile_cpp(program: Path, source: str, *, level: str = "-O3") -> list[str]:
    """Do the same for the C++ kit."""
    flags = ["-std=c++17", level, "-ffp-contract=off", "-fno-trapping-math"]
    return _compile_native("g++", program, [*flags, f"-I{KITS / 'cpp'}", f"-I{KITS / 'c'}", str(KITS / "cpp" / source)])


def _compile_native(compiler: str, program: Path, arguments: Sequence[str]) -> list[str]:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed: apt-get install gcc g++ libc6-dev")
    command = [compiler, "-Wall", "-Wextra", "-Werror", f"-I{KITS.parent}", *arguments, "-o", str(program), "-lm"]
    build_once(program, lambda: _compile(command))
    return [str(program)]


def _compile(command: Sequence[str]) -> None:
    stdout_of(execute(*command, cwd=KITS / "csharp", timeout=_COMPILER_S))


class KitEngine:
    """A started engine; `close` ends it.

    command: its program, which takes a name and further arguments, and writes a line once it has the segment.
    """

    def __init__(self, command: Sequence[str], name: str, *arguments: object) -> None:
        self.name = name
        self._is_there = False
        self.process = subprocess.Popen(
            [*command, name, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    @property
    def endpoint(self) -> str:
        """Where it serves."""
        return f"shm://{self.name}"

    def wait(self) -> None:
        """Return once it has the segment."""
        if not self._is_there:
            assert self.process.stdout is not None
            self._is_there = bool(self.process.stdout.readline())
            assert self._is_there, self.process.communicate(timeout=PATIENCE_S)[1]

    def connect(self, **settings: object) -> Transport:
        """Return a client of it, once it is there."""
        self.wait()
        return api.open_transport(self.endpoint, load_settings({"connect_timeout_s": PATIENCE_S, **settings}))

    def signal(self, number: int) -> tuple[int, str]:
        """Send a signal and return the exit status that follows, and what the engine wrote to its standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors

    def __enter__(self) -> KitEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        with suppress(ValueError):  # the test has read to the end
            self.process.communicate()


def blocks(kit: str, language: str) -> list[str]:
    """Return the code in that language of a kit's README."""
    text = (KITS / kit / "README.md").read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(one) for one in found]


def run_program(engine: KitEngine, kit: str, number: int) -> list[str]:
    """Return the lines that the README's program of that number prints; it steps this engine."""
    engine.wait()
    program = blocks(kit, "python")[number].replace("shm://lift", engine.endpoint)
    program = program.replace("make(", f"make(connect_timeout_s={PATIENCE_S}, ")
    return stdout_of(python("-W", "ignore", "-c", program, timeout=2 * PATIENCE_S)).splitlines()


def assert_second_program(engine: KitEngine, kit: str, size: tuple[int, int]) -> None:
    """Assert that the README's engine answers its program of commands, with a streamed image of that size."""
    one, streamed, image, rendered = run_program(engine, kit, 1)
    assert one == streamed  # no step came between the call and the stream
    assert 0 < float(one.strip("[]")) < 0.1  # drawn from the seed
    assert (image, rendered) == (f"({size[0]}, {size[1]}, 4)", "4 (64, 64, 3)")
