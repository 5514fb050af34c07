"""What the tests protect of the native module: its C changed at random places, one at a time.

    python -m tests.endurance.native_mutants --count 40 --seed 1
    python -m tests.endurance.native_mutants --code ring_writer.c arena.c --tests tests/core/shm

Works in a copy of the tree, whose tests run with the changed module. A mutant is killed when a test fails, or the tests
end by a signal; one whose tests take three times as long as without a change is a time-out, counted apart; one that no
compiler takes is replaced. Survivors are listed with file, line and change, for reading: some are equivalent.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.endurance.fault_native import compile_native, native_files

_ROOT = Path(__file__).parents[2]
_TESTS = ("tests/core/shm", "tests/exhaustive/core/shm", "tests/plugins/shm")
#: What stands in the place of an operator; blanks are around those that are looked for: no pointer has any.
_SWAPS = "<:<= <=:< >:>= >=:> ==:!= !=:== &&:|| ||:&& +:- -:+ *:+ &:| |:& <<:>> >>:<< +=:-= -=:+="
_OPERATORS = {one: other for one, _, other in (pair.partition(":") for pair in _SWAPS.split())}
_OPERATOR = re.compile(r"(?<= )(?:" + "|".join(map(re.escape, sorted(_OPERATORS, key=len, reverse=True))) + r")(?= )")
_BOUND = re.compile(r"(?<![\w.\"'])\d+(?![\w.\"'])")
#: A statement of one line that declares nothing and goes nowhere else.
_STATEMENT = re.compile(
    r" +(?!(?:return|goto|break|continue|case|default|static|const|struct|else|if|for|while)\b)\S.*;$"
)
_DECLARATION = re.compile(r" +(?:\w+ )+\**\w+(?:\[.*\])?(?: =.*)?;$")
_SKIPPED = re.compile(r"\s*(?:#|//|/?\*)")


class Mutant(NamedTuple):
    """A change: `lines` stand in the place of as many at `line` of a file, which is counted from 1."""

    file: str
    line: int
    what: str
    lines: tuple[str, ...]


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Yield each change of a file: another operator, a bound that is one more, two statements in the other order."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if _SKIPPED.match(line):
            continue
        code = line.split("//")[0].split("/*")[0]
        for found in _OPERATOR.finditer(code):
            other = _OPERATORS[found[0]]
            yield Mutant(file, at + 1, f"{found[0]} -> {other}", (_with(line, found, other),))
        for found in _BOUND.finditer(code):
            other = str(int(found[0]) + 1)
            yield Mutant(file, at + 1, f"{found[0]} -> {other}", (_with(line, found, other),))
    for at, pair in enumerate(pairwise(lines)):
        if all(map(_moves, pair)) and pair[0] != pair[1] and len({len(one) - len(one.lstrip()) for one in pair}) == 1:
            yield Mutant(file, at + 1, "order of two statements", pair[::-1])


def _with(line: str, found: re.Match[str], other: str) -> str:
    return line[: found.start()] + other + line[found.end() :]


def _moves(line: str) -> bool:
    return _STATEMENT.match(line) is not None and _DECLARATION.match(line) is None


class Copy:
    """A copy of the tree in `folder`, in which `test` runs the tests."""

    def __init__(self, folder: Path, tests: list[str]) -> None:
        self._folder, self._tests, self._limit_s = folder, tests, 600.0
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, folder / name, follow_symlinks=False)
        began = time.monotonic()
        if (outcome := self.test()) != "survived":
            raise SystemExit(f"without a change the tests are not green: {outcome}")
        self._limit_s = 3 * (time.monotonic() - began)

    def test(self) -> str:
        """Return what becomes of the module as it is now: killed, survived, timed out, or not compiled."""
        if not compile_native(self._folder, self._folder / "lucky_transport" / "_native.abi3.so"):
            return "not compiled"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--timeout",
            "60",
            "-p",
            "no:cacheprovider",
            *self._tests,
        ]
        environment = os.environ | {"PYTHONPATH": str(self._folder)}
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as run:
            try:
                return "killed" if run.wait(self._limit_s) else "survived"
            except subprocess.TimeoutExpired:
                return "timed out"
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, 9)

    def change(self, mutant: Mutant) -> str:
        """Return what becomes of a mutant; its file is put back."""
        file = self._folder / mutant.file
        text = file.read_text()
        lines = text.split("\n")
        lines[mutant.line - 1 : mutant.line - 1 + len(mutant.lines)] = mutant.lines
        file.write_text("\n".join(lines))
        try:
            return self.test()
        finally:
            file.write_text(text)


def main() -> None:
    """Try the mutants, and print each as it ends and the counts at last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", nargs="+", help="files of the native module; all of them by default")
    parser.add_argument("--tests", nargs="+", default=list(_TESTS), help=f"what has to notice; {' '.join(_TESTS)}")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = [name for name in sorted(native_files()) if not options.code or Path(name).name in options.code]
    every = [mutant for name in names for mutant in mutants(name, (_ROOT / name).read_text())]
    random.Random(options.seed).shuffle(every)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), options.tests)
        for mutant in every:
            if counts.total() - counts["not compiled"] == options.count:
                break
            counts[outcome := copy.change(mutant)] += 1
            print(f"{outcome:12} {mutant.file}:{mutant.line}  {mutant.what:24} {mutant.lines[0].strip()}", flush=True)
    print(f"{len(every)} places; " + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))


if __name__ == "__main__":
    main()
