"""What a quick test may start: a file one fresh interpreter, and no compiler; forks of the fork server cost little."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.support import fork_server

_COMPILERS = {"cc", "gcc", "g++", "clang", "mcs", "ziglang", "tsc"}
#: Fresh interpreters of the file whose tests run.
_started: dict[str, list[str]] = {}


def is_exhaustive(item: pytest.Item) -> bool:
    """Return whether a test is of the exhaustive part: by its folder, or by its marker."""
    return "exhaustive" in item.path.parts or item.get_closest_marker("exhaustive") is not None


@contextmanager
def quick_only(item: pytest.Item) -> Iterator[None]:
    """Fail a quick test that starts what such a test may not."""
    if is_exhaustive(item):
        yield
        return
    begin, found = subprocess.Popen.__init__, []

    def noted(self: Any, args: Any, *others: Any, **named: Any) -> None:
        found.append([args] if isinstance(args, (str, bytes, os.PathLike)) else list(args))
        begin(self, args, *others, **named)

    with patch.object(subprocess.Popen, "__init__", noted):
        yield
    programs = [[os.path.basename(os.fsdecode(word)) for word in command] for command in found]
    of_file = _started.setdefault(str(item.path), [])
    python = os.path.basename(sys.executable)
    server = os.path.basename(fork_server.__file__)
    fresh = [item.name for words in programs if words[0] in (python, "python") and server not in words]
    of_file += fresh
    assert not fresh or len(of_file) == 1, f"fresh interpreters in a quick file: {of_file}; mark as exhaustive, or fork"
    compiled = [words for words in programs if _COMPILERS & set(words[:3])]
    assert not compiled, f"a quick test compiles: {compiled}; mark it as exhaustive"
